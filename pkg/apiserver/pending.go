package apiserver

import (
	"fmt"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/clock"

	"nave/pkg/identity"
)

const (
	// maxPendingAlike are the undecided requests of one requester for the same cluster and add-on. Upstream's agent stops
	// by itself at ten of them.
	maxPendingAlike = 10
	// maxPendingOfAgent are all undecided requests of one agent: its own, and those of its cluster's add-ons.
	maxPendingOfAgent = 100
	// maxPendingOfBootstrap are those of one bootstrap identity, which a whole fleet may share while it joins.
	maxPendingOfBootstrap = 2000

	// forgetAfter is when a request that was let pass, but never showed up, is no longer counted.
	forgetAfter = time.Minute

	byRequester = "nave.dev/requester"
)

// pendingRequests counts undecided signing requests by who made them, and not by what they say they are for: nobody fills
// up somebody else's measure (spec 10.1, S7).
type pendingRequests struct {
	clock clock.PassiveClock
	index cache.Indexer // of all requests, by requester

	mu     sync.Mutex
	recent map[string]map[string]taken // by requester and name: let pass, and not in the index yet
}

type taken struct {
	purpose string
	at      time.Time
}

func countPending(informer cache.SharedIndexInformer, clock clock.PassiveClock) (*pendingRequests, error) {
	p := &pendingRequests{clock: clock, recent: map[string]map[string]taken{}}
	err := informer.AddIndexers(cache.Indexers{byRequester: func(obj any) ([]string, error) {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && len(csr.Status.Conditions) == 0 {
			return []string{csr.Spec.Username}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index signing requests by requester: %w", err)
	}
	p.index = informer.GetIndexer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok {
			p.seen(csr.Spec.Username, csr.Name)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watch signing requests: %w", err)
	}
	return p, nil
}

func (p *pendingRequests) seen(requester, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recent[requester], name)
	if len(p.recent[requester]) == 0 {
		delete(p.recent, requester)
	}
}

// take counts a request that is about to be stored, or says which limit it would exceed.
func (p *pendingRequests) take(requester string, csr *certificates.CertificateSigningRequest, limit int) error {
	purpose := purposeOf(csr.Labels)
	p.mu.Lock()
	defer p.mu.Unlock()
	all, alike, err := p.count(requester, purpose)
	if err != nil {
		return internal{err}
	}
	if alike >= maxPendingAlike {
		return fmt.Errorf("%s has %d undecided signing requests for %s, the limit is %d; have them approved or denied first", requester, alike, purpose, maxPendingAlike)
	}
	if all >= limit {
		return fmt.Errorf("%s has %d undecided signing requests, the limit is %d; have them approved or denied first", requester, all, limit)
	}
	if p.recent[requester] == nil {
		p.recent[requester] = map[string]taken{}
	}
	p.recent[requester][csr.Name] = taken{purpose, p.clock.Now()}
	return nil
}

func (p *pendingRequests) count(requester, purpose string) (all, alike int, err error) {
	indexed, err := p.index.ByIndex(byRequester, requester)
	if err != nil {
		return 0, 0, fmt.Errorf("signing requests of %s: %w", requester, err)
	}
	var purposes []string
	for _, obj := range indexed {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok {
			purposes = append(purposes, purposeOf(csr.Labels))
		}
	}
	for name, t := range p.recent[requester] {
		_, known, err := p.index.GetByKey(name)
		if err != nil {
			return 0, 0, fmt.Errorf("signing request %s: %w", name, err)
		}
		switch {
		case p.clock.Since(t.at) > forgetAfter:
			delete(p.recent[requester], name)
		case !known:
			purposes = append(purposes, t.purpose)
		}
	}
	alike = len(purposes) - len(slices.DeleteFunc(slices.Clone(purposes), func(s string) bool { return s == purpose }))
	return len(purposes), alike, nil
}

// purposeOf is what a request is for, as far as its labels say.
func purposeOf(labels map[string]string) string {
	if addon := labels[identity.AddOnNameLabel]; addon != "" {
		return fmt.Sprintf("add-on %s of cluster %s", addon, labels[identity.ClusterNameLabel])
	}
	return "cluster " + labels[identity.ClusterNameLabel]
}
