package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json" // keeps integers apart from floats
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"nave/pkg/api/schema"
)

// maxBodyBytes is what kube-apiserver takes as one request (3 MiB), a little under etcd's own limit with its overhead.
const maxBodyBytes = 3 << 20

// Gate checks the body of creates and replacements of our kinds as it was sent, before it is decoded into a Go type. A Go
// type cannot tell a required field that is absent from one that is empty, nor say where a value of a wrong type stood;
// a CRD does, and so do we. Patches cannot be checked like this: their result is validated after decoding. What is checked
// of every write are its numbers.
func (a *API) Gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		definition, whole := a.definitionFor(r)
		if definition == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if err != nil {
			a.refuse(w, r, definition, bodyError(err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err := checkNumbers(body); err != nil {
			a.refuse(w, r, definition, err)
			return
		}
		if whole {
			if err := check(r, definition, body); err != nil {
				a.refuse(w, r, definition, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// definitionFor is the definition of what the request writes, nil where the gate has nothing to say, and whether the body
// has to follow it as it is.
func (a *API) definitionFor(r *http.Request) (d *schema.Definition, whole bool) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || (info.Verb != "create" && info.Verb != "update" && info.Verb != "patch") {
		return nil, false
	}
	whole = info.Subresource == "" && info.Verb != "patch"
	for _, k := range a.table {
		for _, v := range k.versions {
			if v.gv.Group != info.APIGroup || v.gv.Version != info.APIVersion {
				continue
			}
			if d := a.definition(v); d.Names.Plural == info.Resource {
				return d, whole
			}
		}
	}
	return nil, false
}

// check validates a body. One that is no JSON or YAML object is left to the decoder, whose error says more.
func check(r *http.Request, definition *schema.Definition, body []byte) error {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == "application/yaml" {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil
		}
		body = converted
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil || len(content) == 0 {
		return nil
	}
	name := nameIn(content)
	// The status of a create or replacement is dropped, whatever it holds.
	delete(content, "status")
	definition.Fill(content)
	if errs := definition.Validate(r.Context(), content); len(errs) > 0 {
		return apierrors.NewInvalid(runtimeschema.GroupKind{Group: definition.Kind.Group, Kind: definition.Kind.Kind}, name, errs)
	}
	return nil
}

func nameIn(content map[string]any) string {
	metadata, _ := content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

func (a *API) refuse(w http.ResponseWriter, r *http.Request, definition *schema.Definition, err error) {
	audit.AddAuditAnnotation(r.Context(), "nave.dev/refused-by", "schema")
	responsewriters.ErrorNegotiated(err, a.codecs, definition.Kind.GroupVersion(), w, r)
}

func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", tooLarge.Limit))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("read request body: %v", err))
}
