package reconcile

import (
	"strconv"

	"k8s.io/client-go/tools/cache"
)

// Handler calls f with an object before and after a change; nil before it was there and after it is gone.
func Handler[T any](f func(before, after *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if after, ok := obj.(*T); ok {
				f(nil, after)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*T)
			if after, also := obj.(*T); ok && also {
				f(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if before, ok := obj.(*T); ok {
				f(before, nil)
			}
		},
	}
}

// Newer compares resource versions of one object, which the API server counts up.
func Newer(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	if errA != nil || errB != nil {
		return version != than
	}
	return a > b
}
