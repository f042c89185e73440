package registration

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nave/pkg/token"
)

const (
	// BootstrapSecret is the secret in Namespace with the bootstrap kubeconfig, as clusteradm and upstream's operator
	// leave it (spec 2.1).
	BootstrapSecret = "bootstrap-hub-kubeconfig"

	// maxTokenFile bounds what is read of a token file; a token has under a hundred characters.
	maxTokenFile = 4 << 10
)

// Sources are where the wish is read from. A join token counts more than kubeconfigs in files, and these count more than
// the secret on the cluster.
type Sources struct {
	Cluster     string   // name of the managed cluster
	Server      string   // URL of the hub
	Token       string   // join token
	TokenFile   string   // file that holds one
	Kubeconfigs []string // files of bootstrap kubeconfigs; several are several hubs
}

// files are those that are watched.
func (s Sources) files() []string {
	if s.TokenFile != "" {
		return append([]string{s.TokenFile}, s.Kubeconfigs...)
	}
	return s.Kubeconfigs
}

// onCluster tells whether the secret on the cluster counts.
func (s Sources) onCluster() bool {
	return s.Token == "" && s.TokenFile == "" && len(s.Kubeconfigs) == 0
}

// Read reads the wish. secret is the bootstrap secret, nil if there is none. What is wrong is said in the wish, since
// somebody may mend it while the agent runs.
func (s Sources) Read(secret *corev1.Secret) Wish {
	w := Wish{Cluster: s.Cluster, Unattended: s.onCluster(), OneTime: s.Token != "" || s.TokenFile != ""}
	w.Ways, w.Fault = s.ways(secret)
	if len(w.Ways) == 0 || w.Ways[0].Token != nil {
		w.Server = s.Server
	}
	return w
}

func (s Sources) ways(secret *corev1.Secret) ([]Bootstrap, error) {
	switch {
	case s.Token != "" || s.TokenFile != "":
		way, err := s.byToken()
		if err != nil {
			return nil, err
		}
		return []Bootstrap{way}, nil
	case s.onCluster() && secret == nil:
		return nil, nil
	case s.onCluster():
		way, err := ParseKubeconfig(secret.Data[keyKubeconfig])
		if err != nil {
			return nil, fmt.Errorf("secret %s/%s: kubeconfig: %w", Namespace, BootstrapSecret, err)
		}
		way.Source = fmt.Sprintf("secret %s/%s", Namespace, BootstrapSecret)
		return []Bootstrap{way}, nil
	}
	var all []Bootstrap
	var errs []error
	for _, file := range s.Kubeconfigs {
		way, err := byFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, way)
	}
	return all, oneLine(errors.Join(errs...)) // one that is broken keeps nobody from the others
}

func (s Sources) byToken() (Bootstrap, error) {
	text, source := s.Token, "the join token"
	if s.TokenFile != "" {
		raw, err := readFile(s.TokenFile, maxTokenFile)
		if err != nil {
			return Bootstrap{}, fmt.Errorf("token file %s: %w", s.TokenFile, err)
		}
		text, source = string(raw), "the join token in "+s.TokenFile
	}
	t, err := token.Parse(strings.TrimSpace(text))
	if err != nil {
		return Bootstrap{}, refusal(exitMalformed, "%w", err)
	}
	if err := checkServer(s.Server); err != nil {
		return Bootstrap{}, err
	}
	return Bootstrap{Source: source, Token: &t, Server: s.Server}, nil
}

func byFile(file string) (Bootstrap, error) {
	text, err := readFile(file, maxKubeconfig)
	if err != nil {
		return Bootstrap{}, fmt.Errorf("bootstrap kubeconfig %s: %w", file, err)
	}
	way, err := ParseKubeconfig(text)
	if err != nil {
		return Bootstrap{}, fmt.Errorf("bootstrap kubeconfig %s: %w", file, err)
	}
	way.Source = "bootstrap kubeconfig " + file
	return way, nil
}

func readFile(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // without the path, which stands in front already
		}
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}
