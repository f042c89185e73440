package apiserver

import (
	"net/http"
)

// CACertsPath is where everybody may read the CAs that sign the hub's own certificate. Whoever has no reason yet to trust
// the connection compares what comes with what it was told before.
const CACertsPath = "/cacerts"

// caCerts answers with the bundle as PEM.
func caCerts(bundle func() []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(bundle()) // a reader that went away is its own business
	})
}
