package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// Placement is upstream's Placement as the hub stores it. The one difference is that a prioritizer's weight is a pointer:
// upstream's Go type drops a weight of 0 when it is encoded, and the default of 1 would take its place, although 0 is how
// a prioritizer is switched off (spec 5.2). On the wire the two are the same.
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlacementSpec                  `json:"spec"`
	Status clusterv1beta1.PlacementStatus `json:"status,omitempty"`
}

// PlacementSpec is clusterv1beta1.PlacementSpec with its own PrioritizerPolicy.
type PlacementSpec struct {
	ClusterSets       []string                           `json:"clusterSets,omitempty"`
	NumberOfClusters  *int32                             `json:"numberOfClusters,omitempty"`
	Predicates        []clusterv1beta1.ClusterPredicate  `json:"predicates,omitempty"`
	PrioritizerPolicy PrioritizerPolicy                  `json:"prioritizerPolicy"`
	SpreadPolicy      clusterv1beta1.SpreadPolicy        `json:"spreadPolicy,omitempty"`
	Tolerations       []clusterv1beta1.Toleration        `json:"tolerations,omitempty"`
	DecisionStrategy  clusterv1beta1.DecisionStrategy    `json:"decisionStrategy,omitempty"`
	SortBy            clusterv1beta1.PlacementSortByType `json:"sortBy,omitempty"`
	ScoreRateLimit    string                             `json:"scoreRateLimit,omitempty"`
}

// PrioritizerPolicy is clusterv1beta1.PrioritizerPolicy with its own configurations.
type PrioritizerPolicy struct {
	Mode           clusterv1beta1.PrioritizerPolicyModeType `json:"mode,omitempty"`
	Configurations []PrioritizerConfig                      `json:"configurations,omitempty"`
}

// PrioritizerConfig is clusterv1beta1.PrioritizerConfig with a weight that can be 0.
type PrioritizerConfig struct {
	ScoreCoordinate *clusterv1beta1.ScoreCoordinate `json:"scoreCoordinate,omitempty"`
	Weight          *int32                          `json:"weight,omitempty"`
}

// PlacementList is a list of placements.
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Placement `json:"items"`
}

// OpenAPIModelName is upstream's, as clients see one and the same kind.
func (Placement) OpenAPIModelName() string { return clusterv1beta1.Placement{}.OpenAPIModelName() }

// OpenAPIModelName is upstream's.
func (PlacementList) OpenAPIModelName() string {
	return clusterv1beta1.PlacementList{}.OpenAPIModelName()
}

// DeepCopyObject implements runtime.Object.
func (p *Placement) DeepCopyObject() runtime.Object {
	if p == nil {
		return nil
	}
	out := p.deepCopy()
	return &out
}

func (p *Placement) deepCopy() Placement {
	out := Placement{TypeMeta: p.TypeMeta}
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	p.Status.DeepCopyInto(&out.Status)
	p.Spec.deepCopyInto(&out.Spec)
	return out
}

// deepCopyInto lets upstream's code copy what is upstream's.
func (s *PlacementSpec) deepCopyInto(out *PlacementSpec) {
	theirs := (&clusterv1beta1.PlacementSpec{
		ClusterSets:      s.ClusterSets,
		NumberOfClusters: s.NumberOfClusters,
		Predicates:       s.Predicates,
		SpreadPolicy:     s.SpreadPolicy,
		Tolerations:      s.Tolerations,
		DecisionStrategy: s.DecisionStrategy,
	}).DeepCopy()
	*out = PlacementSpec{
		ClusterSets:       theirs.ClusterSets,
		NumberOfClusters:  theirs.NumberOfClusters,
		Predicates:        theirs.Predicates,
		PrioritizerPolicy: PrioritizerPolicy{Mode: s.PrioritizerPolicy.Mode, Configurations: slices.Clone(s.PrioritizerPolicy.Configurations)},
		SpreadPolicy:      theirs.SpreadPolicy,
		Tolerations:       theirs.Tolerations,
		DecisionStrategy:  theirs.DecisionStrategy,
		SortBy:            s.SortBy,
		ScoreRateLimit:    s.ScoreRateLimit,
	}
	for i := range out.PrioritizerPolicy.Configurations {
		c := &out.PrioritizerPolicy.Configurations[i]
		c.ScoreCoordinate = c.ScoreCoordinate.DeepCopy()
		if c.Weight != nil {
			weight := *c.Weight
			c.Weight = &weight
		}
	}
}

// DeepCopyObject implements runtime.Object.
func (l *PlacementList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &PlacementList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, l.Items[i].deepCopy())
	}
	return out
}
