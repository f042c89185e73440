package workspec

import (
	"crypto/sha256"
	"encoding/hex"

	workv1 "open-cluster-management.io/api/work/v1"
)

// maxManager is Kubernetes' limit for the name of a field manager.
const maxManager = 128

// FieldManager is the name under which a work's fields are known on an object. Each work has a name of its own, so that two
// works can own one object without taking each other's fields away. It begins with upstream's name.
func FieldManager(work string) string {
	name := workv1.DefaultFieldManager + "-" + work
	if len(name) <= maxManager {
		return name
	}
	sum := sha256.Sum256([]byte(work))
	return workv1.DefaultFieldManager + "-" + hex.EncodeToString(sum[:])
}
