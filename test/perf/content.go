package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
)

// manifestBytes is about what one manifest of a chart has.
const manifestBytes = 1000

// workOfBytes is a work whose manifests have this many bytes together: ConfigMaps with settings in them, which shrink as
// charts do when they are compressed. No two are the same.
func workOfBytes(i, bytes int) *workv1.ManifestWork {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("stored-%05d", i)}}
	for left := bytes; left > 0; left -= manifestBytes {
		raw := configMapOfBytes(fmt.Sprintf("settings-%05d-%02d", i, len(work.Spec.Workload.Manifests)), min(left, manifestBytes), random)
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	return work
}

// configMapOfBytes has so many bytes, or a few more where its head alone is longer.
func configMapOfBytes(name string, bytes int, random *rand.Rand) string {
	head := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","labels":`+
		`{"app.kubernetes.io/name":"settings","app.kubernetes.io/part-of":"stored"}},"data":{"settings":"`, name)
	const tail = `"}}`
	words := strings.Fields("server client timeout retries limit address port enabled disabled path level format interval seconds cache size " +
		"backend frontend primary replica region zone bucket queue worker pool thread memory request response header body secret token")
	var text strings.Builder
	for text.Len() < bytes-len(head)-len(tail) {
		fmt.Fprintf(&text, `%s.%s=%d\n`, words[random.IntN(len(words))], words[random.IntN(len(words))], random.IntN(100_000))
	}
	settings := text.String()
	// A cut in the middle of the two bytes of a line's end would leave a lone backslash.
	settings = strings.TrimRight(settings[:min(len(settings), max(0, bytes-len(head)-len(tail)))], `\`)
	return head + settings + tail
}
