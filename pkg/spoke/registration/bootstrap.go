package registration

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"nave/pkg/token"
)

// Bootstrap is a way to ask a hub for an identity: by a join token, or by a bootstrap kubeconfig.
type Bootstrap struct {
	Source string // where it is from, for people: "join token", "file /x", "secret ns/x"

	// Of a join token the CA becomes known when the hub is reached, see reach; its hash decides which hub it is.
	Token *token.Token

	Server           string // https URL
	ServerName       string // that the hub's certificate is for, if it is not the host of the URL
	Proxy            string // URL
	Entry            string // name of the cluster in the kubeconfig; a change of it is the wish for a new identity (spec 2.1)
	CA               []byte // PEM; the system's if empty
	Bearer           string
	Certificate, Key []byte // PEM
}

// joinEntry is what the hub is called in the kubeconfig that is kept after joining with a token.
const joinEntry = "hub"

// rest is the access to the hub that the bootstrap gives.
func (b Bootstrap) rest(userAgent string) *rest.Config {
	config := &rest.Config{
		Host: b.Server, UserAgent: userAgent, BearerToken: b.Bearer, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: b.CA, ServerName: b.ServerName, CertData: b.Certificate, KeyData: b.Key},
	}
	if proxy, err := parseProxy(b.Proxy); err == nil {
		config.Proxy = http.ProxyURL(proxy)
	}
	return config
}

// mark stands for where the bootstrap leads: when it changes, so does the wish. A changed credential alone leads to the
// same identity.
func (b Bootstrap) mark() string {
	if b.Token != nil {
		return "" // the pin says it better, see leadsTo
	}
	sum := sha256.New()
	for _, part := range []string{b.Server, b.ServerName, b.Proxy, b.Entry, string(b.CA)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// spent tells whether the bootstrap is a join token that gave the identity which is kept; it gives no other one.
func (b Bootstrap) spent(kept Credentials) bool { return b.Token != nil && b.Token.ID == kept.Token }

// expired is when a token ended that says so itself, as those of service accounts do.
func (b Bootstrap) expired(now time.Time) (time.Time, bool) {
	parts := strings.Split(b.Bearer, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires == 0 {
		return time.Time{}, false
	}
	end := time.Unix(claims.Expires, 0)
	return end, now.After(end)
}

// oneLine joins the lines of errors that were joined.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.Join(strings.Split(err.Error(), "\n"), "; "))
}
