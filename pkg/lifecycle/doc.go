// Package lifecycle starts the parts of a process in order, watches them, and stops them in reverse.
//
// The life of one component, as the group drives it:
//
//	        Start returns nil                 Stop called once
//	added ───────────────────▶ running ─────────────────────────▶ stopped
//	  │                          │  │
//	  │ Start returns an error   │  └─ ctx of Run ends: everything is stopped, Run returns nil
//	  ▼                          └──── Failed delivers an error: everything is stopped, Run returns that error
//	never ran (has undone its own
//	part; Stop is not called)
//
// Components start one after the other in the order of Add, each only when the one before is ready, and stop in the
// opposite order. So what is added first is there for everything that comes later, and outlives it: the store is added
// before the API server, the API server before the controllers. A failed start stops what has started, in reverse.
package lifecycle
