package log

// Field names, the same in every package, so that a query over the logs of hub and agent needs one spelling.
const (
	FieldComponent = "component" // part of the process: store, apiserver, acceptance, work …
	FieldLoop      = "loop"      // reconcile loop
	FieldKey       = "key"       // key within a loop
	FieldCluster   = "cluster"   // managed cluster
	FieldWork      = "work"      // manifest work, by name
	FieldObject    = "object"    // any other object, as kind namespace/name
	FieldReason    = "reason"    // reason of a condition
	FieldAddress   = "address"   // host:port or socket path
	FieldPath      = "path"      // file or directory
	FieldElapsed   = "elapsed"   // duration of a step
	FieldRequests  = "requests"  // number of requests
)
