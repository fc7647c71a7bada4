package egress

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// target is a URL that the policy allows, ready for requests.
type target struct {
	hostPort string // the address to dial
	address  string // hostPort with the scheme; targets with the same address share connections
	secure   bool
	start    string // of each request, up to the length of its body
}

func newTarget(u *url.URL) *target {
	t := &target{hostPort: Authority(u), secure: u.Scheme == "https"}
	t.address = u.Scheme + "://" + t.hostPort
	t.start = http.MethodPost + " " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Length: "
	return t
}

// maxTargets bounds the targets that are remembered, of some 500 bytes each. An account may have
// 10,000 webhooks, and one event may go to all of them.
const maxTargets = 16384

// targets remembers the policy's decisions about URLs. The decision is always the same, because the policy does
// not change. The address of a name is checked at each connection.
type targets struct {
	mu    sync.RWMutex
	byURL map[string]*target
}

func (t *targets) forURL(p *Policy, raw string) (*target, error) {
	t.mu.RLock()
	known := t.byURL[raw]
	t.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	u, err := p.target(raw, &rules)
	if err != nil {
		return nil, err
	}
	made := newTarget(u)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byURL == nil || len(t.byURL) >= maxTargets {
		t.byURL = make(map[string]*target)
	}
	t.byURL[raw] = made
	return made, nil
}

// Authority returns the host and port to connect to for a URL. A missing port follows from the scheme.
func Authority(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
