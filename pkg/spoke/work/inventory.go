package work

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// inventoryAnnotation of an AppliedManifestWork lists the objects that its work is about to have on the cluster. It is
	// written before they are, so that an agent that dies in between, or a work that is changed in between, leaves nothing
	// behind that nobody knows of. status.appliedResources, as upstream has it, can only be written afterwards.
	inventoryAnnotation = "nave.dev/objects"

	// plainInventory is how long the annotation may be before it is compressed; all annotations of an object together may
	// have 256 KiB, and names of thousands of objects are much alike.
	plainInventory = 16 << 10
	gzipPrefix     = "gzip:"
	// maxInventory bounds what an annotation unpacks to. Anybody with rights on the cluster can write one.
	maxInventory = 16 << 20
)

// inventory is what one AppliedManifestWork knows. Only one worker at a time has to do with it.
type inventory struct {
	items map[identity]item
	noted string                               // the annotation as it was written last
	saved []workv1.AppliedManifestResourceMeta // the status as it was written last
}

// item is what is known of an object of a work beyond its name.
type item struct {
	version string // of the API, in which it was applied
	uid     string // empty if it is not known to have been applied
	manager string // under which name the work holds its fields, where that is not the work's own
	done    string // hash of the manifest that has been completed and is never applied again
}

// note is an item in the annotation.
type note struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Manager   string `json:"manager,omitempty"`
	Done      string `json:"done,omitempty"`
}

// newInventory reads what an AppliedManifestWork knows.
func newInventory(amw *workv1.AppliedManifestWork) (*inventory, error) {
	inv := &inventory{items: map[identity]item{}, noted: amw.Annotations[inventoryAnnotation], saved: amw.Status.AppliedResources}
	notes, err := readNotes(inv.noted)
	if err != nil {
		return nil, fmt.Errorf("applied manifest work %s: annotation %s: %w; remove the annotation to go on without it", amw.Name, inventoryAnnotation, err)
	}
	for _, n := range notes {
		inv.items[identity{Group: n.Group, Resource: n.Resource, Namespace: n.Namespace, Name: n.Name}] = item{version: n.Version, manager: n.Manager, done: n.Done}
	}
	for _, r := range inv.saved {
		known := inv.items[r.ResourceIdentifier]
		known.version, known.uid = r.Version, r.UID
		inv.items[r.ResourceIdentifier] = known
	}
	return inv, nil
}

func readNotes(text string) ([]note, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if packed, ok := strings.CutPrefix(text, gzipPrefix); ok {
		var err error
		if raw, err = unpack(packed); err != nil {
			return nil, err
		}
	}
	var notes []note
	if err := json.Unmarshal(raw, &notes); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return notes, nil
}

func unpack(packed string) ([]byte, error) {
	bits, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(bits))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(reader, maxInventory+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(raw) > maxInventory {
		return nil, fmt.Errorf("unpack: it holds more than the limit of %d bytes", maxInventory)
	}
	return raw, nil
}

// text is the annotation for what is known now.
func (inv *inventory) text() (string, error) {
	notes := []note{}
	for id, i := range inv.items {
		notes = append(notes, note{id.Group, i.version, id.Resource, id.Namespace, id.Name, i.manager, i.done})
	}
	slices.SortFunc(notes, func(x, y note) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	raw, err := json.Marshal(notes)
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	if len(raw) <= plainInventory {
		return string(raw), nil
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(raw); err != nil {
		return "", fmt.Errorf("pack: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("pack: %w", err)
	}
	return gzipPrefix + base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// expect adds the objects that are to be applied and to go with their work, and tells whether there are any new ones.
func (inv *inventory) expect(manifests []*manifest) bool {
	grown := false
	for _, m := range manifests {
		if m.err != nil || !m.owned {
			continue
		}
		if i := inv.items[m.id()]; i.version == "" {
			i.version, grown = m.gvr.Version, true
			inv.items[m.id()] = i
		}
	}
	return grown
}

// take notes what came of a pass over a work's manifests.
func (inv *inventory) take(results []result) {
	for _, r := range results {
		if r.gvr.Resource == "" || r.instead != nil {
			continue
		}
		i, known := inv.items[r.id()]
		if r.err == nil && r.exists {
			i.manager = r.manager
			if known {
				i.version, i.uid = r.gvr.Version, r.uid
			}
		}
		if i.done = ""; r.done {
			i.done = short(r.manifest)
		}
		if known || i != (item{}) {
			inv.items[r.id()] = i
		}
	}
}

// short is the hash of a manifest by which the inventory remembers that it was completed.
func short(m *manifest) string { return hex.EncodeToString(m.hash[:8]) }

// stale are items that the work does not list any more.
func (inv *inventory) stale(listed map[identity]bool) []workv1.AppliedManifestResourceMeta {
	var gone []workv1.AppliedManifestResourceMeta
	for id, i := range inv.items {
		if !listed[id] {
			gone = append(gone, resource(id, i))
		}
	}
	return sorted(gone)
}

// all are all items.
func (inv *inventory) all() []workv1.AppliedManifestResourceMeta { return inv.stale(nil) }

// applied are the items that are known to be on the cluster.
func (inv *inventory) applied() []workv1.AppliedManifestResourceMeta {
	return slices.DeleteFunc(inv.all(), func(r workv1.AppliedManifestResourceMeta) bool { return r.UID == "" })
}

func resource(id identity, i item) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{Version: i.version, ResourceIdentifier: id, UID: i.uid}
}

func sorted(all []workv1.AppliedManifestResourceMeta) []workv1.AppliedManifestResourceMeta {
	slices.SortFunc(all, func(x, y workv1.AppliedManifestResourceMeta) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// annotations are those of a new AppliedManifestWork.
func annotations(inventory, registration string) map[string]string {
	all := map[string]string{inventoryAnnotation: inventory}
	if registration != "" {
		all[registrationAnnotation] = registration
	}
	return all
}

func ownerOf(amw *workv1.AppliedManifestWork) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: amw.Name, UID: amw.UID}
}
