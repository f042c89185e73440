package rollout

// PausedAnnotation on a ManifestWorkReplicaSet holds its rollout while its value is "true": no cluster gets new content.
// What is not selected any more is still removed.
const PausedAnnotation = "nave.dev/rollout-paused"

// Paused tells whether annotations hold a rollout.
func Paused(annotations map[string]string) bool { return annotations[PausedAnnotation] == "true" }
