package scheduling

import (
	"cmp"
	"slices"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// member is a cluster as the controller knows it.
type member struct {
	id        int // small and its own, for what placements keep about each cluster
	name      string
	cluster   *clusterv1.ManagedCluster // nil if it is only named in decisions
	decisions int                       // of all placements
}

// fleet are the clusters of the hub, and how many decisions there are for each (Balance). Upstream counts the decisions of
// all placements again for each placement (spec 10.3, P3).
type fleet struct {
	byName  map[string]*member
	sorted  []*member // those that there are, in the order of names
	entries []*member // by id; nil where nobody has it any more
	free    []int     // ids that nobody has any more
}

// member finds or makes the entry of a name.
func (f *fleet) member(name string) *member {
	m := f.byName[name]
	if m == nil {
		if len(f.free) == 0 {
			f.free = append(f.free, len(f.entries))
			f.entries = append(f.entries, nil)
		}
		m = &member{id: f.free[len(f.free)-1], name: name}
		f.free = f.free[:len(f.free)-1]
		f.byName[name], f.entries[m.id] = m, m
	}
	return m
}

// set takes over the newest state of a cluster.
func (f *fleet) set(mc *clusterv1.ManagedCluster) *member {
	m := f.member(mc.Name)
	if m.cluster == nil {
		i, _ := f.find(mc.Name)
		f.sorted = slices.Insert(f.sorted, i, m)
	}
	m.cluster = mc
	return m
}

// unset forgets a cluster that is gone. Its entry stays as long as decisions name it.
func (f *fleet) unset(name string) {
	m := f.byName[name]
	if m == nil || m.cluster == nil {
		return
	}
	i, _ := f.find(name)
	f.sorted = slices.Delete(f.sorted, i, i+1)
	m.cluster = nil
	f.release(m)
}

func (f *fleet) find(name string) (int, bool) {
	return slices.BinarySearchFunc(f.sorted, name, func(m *member, name string) int { return cmp.Compare(m.name, name) })
}

// release gives an entry up if neither the cluster nor a decision for it is there.
func (f *fleet) release(m *member) {
	if m.cluster != nil || m.decisions > 0 {
		return
	}
	delete(f.byName, m.name)
	f.entries[m.id] = nil
	f.free = append(f.free, m.id)
}
