package placement

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// Explanation is why a placement selects what it selects: the answer of the hub's debug path. Its first part is upstream's
// (spec 5.5); conditions, warnings and clusters are what upstream does not tell.
type Explanation struct {
	Placement         *clusterv1beta1.Placement `json:"placement,omitempty"`
	FilterResults     []FilterResult            `json:"filteredPipelineResults,omitempty"`
	PrioritizeResults []PrioritizeResult        `json:"prioritizeResults,omitempty"`
	AggregatedScores  []ClusterScore            `json:"aggregatedScores,omitempty"` // best first
	Error             string                    `json:"error,omitempty"`

	Conditions []metav1.Condition `json:"conditions,omitempty"` // what this evaluation says of the placement
	Warnings   []string           `json:"warnings,omitempty"`   // of what does not count though it was asked for
	Clusters   []Explained        `json:"clusters,omitempty"`   // in the order of names
}

// FilterResult is which clusters passed a filter and those before it. The names are all of theirs, separated by commas.
type FilterResult struct {
	Name             string   `json:"name"`
	FilteredClusters []string `json:"filteredClusters"`
}

// PrioritizeResult is how a prioritizer scored the clusters that passed all filters, from -100 to 100, before its weight.
type PrioritizeResult struct {
	Name   string           `json:"name"`
	Weight int32            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

// ClusterScore is the sum of all scores of a cluster, each times its weight.
type ClusterScore struct {
	ClusterName string `json:"clusterName"`
	Score       int64  `json:"score"`
}

// Explained is what came of one cluster.
type Explained struct {
	Name     string           `json:"name"`
	Selected bool             `json:"selected"`         // by this evaluation
	Decided  bool             `json:"decided"`          // it is among the decisions now
	Rank     int              `json:"rank,omitempty"`   // from 1, of those that passed all filters; 0 if it did not
	Score    int64            `json:"score"`            // sum of scores, each times its weight
	Scores   map[string]int64 `json:"scores,omitempty"` // by prioritizer, before the weight
	Filter   string           `json:"filter,omitempty"` // what keeps it out; empty if it is selected
	Reason   string           `json:"reason,omitempty"` // one sentence, with the value that did it
	Group    string           `json:"group,omitempty"`  // decision group, as index or index/name
}
