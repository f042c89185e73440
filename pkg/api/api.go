package api

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"nave/pkg/api/schema"
)

// API is everything that an API server needs to serve the kinds of the table.
type API struct {
	Scheme *runtime.Scheme

	table       []kind
	definitions map[runtimeschema.GroupVersionKind]*schema.Definition
	codecs      serializer.CodecFactory
}

// New loads the definitions and builds the scheme. It fails only where the embedded definitions and the Go types disagree.
func New() (*API, error) {
	definitions, err := schema.Load()
	if err != nil {
		return nil, err
	}
	table := kinds()
	scheme, err := newScheme(table, definitions)
	if err != nil {
		return nil, err
	}
	return &API{Scheme: scheme, table: table, definitions: definitions, codecs: serializer.NewCodecFactory(scheme)}, nil
}

// GroupVersions are the served versions, best first within a group, groups in the order of their names.
func (a *API) GroupVersions() []runtimeschema.GroupVersion {
	var all []runtimeschema.GroupVersion
	for _, group := range a.groups() {
		all = append(all, a.Scheme.PrioritizedVersionsForGroup(group)...)
	}
	return all
}

// GroupNames are the names of the groups that the kinds of the table make up.
func (a *API) GroupNames() sets.Set[string] { return sets.New(a.groups()...) }

// StorageFactory says how the kinds are encoded in etcd: as JSON in the stored version. config is the store's connection.
func (a *API) StorageFactory(config storagebackend.Config, served serverstorage.APIResourceConfigSource) serverstorage.StorageFactory {
	encoding := serverstorage.NewDefaultResourceEncodingConfig(a.Scheme)
	prefixes := map[runtimeschema.GroupResource]string{}
	for _, k := range a.table {
		stored := k.versions[0].gv
		internal := runtimeschema.GroupVersion{Group: stored.Group, Version: runtime.APIVersionInternal}
		resource := a.resource(k)
		encoding.SetResourceEncoding(resource, stored, internal)
		prefixes[resource] = resource.Group + "/" + resource.Resource // where a CRD's objects lie, too
	}
	return serverstorage.NewDefaultStorageFactory(config, runtime.ContentTypeJSON, a.codecs, encoding, served, prefixes)
}

// Groups makes the API groups to install into a server, with storage made by options.
func (a *API) Groups(options generic.RESTOptionsGetter) ([]*genericapiserver.APIGroupInfo, error) {
	infos := map[string]*genericapiserver.APIGroupInfo{}
	for _, k := range a.table {
		group := k.versions[0].gv.Group
		info, ok := infos[group]
		if !ok {
			fresh := genericapiserver.NewDefaultAPIGroupInfo(group, a.Scheme, runtime.NewParameterCodec(a.Scheme), a.codecs)
			fresh.NegotiatedSerializer = textOnly{fresh.NegotiatedSerializer}
			info = &fresh
			infos[group] = info
		}
		if err := a.install(info, k, options); err != nil {
			return nil, err
		}
	}
	var all []*genericapiserver.APIGroupInfo
	for _, group := range a.groups() {
		all = append(all, infos[group])
	}
	return all, nil
}

func (a *API) install(info *genericapiserver.APIGroupInfo, k kind, options generic.RESTOptionsGetter) error {
	stored := a.definition(k.versions[0])
	main, status, err := newStores(strategy{a.Scheme, a.Scheme, names.SimpleNameGenerator, k, stored}, options)
	if err != nil {
		return err
	}
	for _, v := range k.versions {
		resources := info.VersionedResourcesStorageMap[v.gv.Version]
		if resources == nil {
			resources = map[string]rest.Storage{}
			info.VersionedResourcesStorageMap[v.gv.Version] = resources
		}
		resources[stored.Names.Plural] = main
		if status != nil {
			resources[stored.Names.Plural+"/status"] = status
		}
	}
	return nil
}

// definition of a version; newScheme made sure that there is one.
func (a *API) definition(v version) *schema.Definition {
	gvk, err := kindOf(a.Scheme, v)
	if err != nil {
		panic(fmt.Sprintf("table and scheme differ: %v", err))
	}
	return a.definitions[gvk]
}

func (a *API) resource(k kind) runtimeschema.GroupResource {
	return k.versions[0].gv.WithResource(a.definition(k.versions[0]).Names.Plural).GroupResource()
}

func (a *API) groups() []string {
	var all []string
	for _, k := range a.table {
		all = append(all, k.versions[0].gv.Group)
	}
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}

// textOnly offers JSON and YAML alone: our types have no protobuf form, as custom resources have none.
type textOnly struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (t textOnly) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(t.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType != runtime.ContentTypeJSON && info.MediaType != runtime.ContentTypeYAML
	})
}
