package tunnel

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

const (
	// maxLookUps is how many tokens are looked up at a time. Without this bound, false tokens could
	// take all connections to the database.
	maxLookUps = 8
	// openEvery and openBurst bound how often one token may connect to this gateway.
	openEvery = 500 * time.Millisecond
	openBurst = 4 * domain.MaxTunnelConnections
	// maxVersion bounds the version that an agent sends.
	maxVersion = 64
)

// ServeHTTP accepts the connection of an agent.
func (t *Tunnels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestid.Of(r.Header)
	w.Header().Set(requestid.Header, id)
	w.Header().Set("Cache-Control", "no-store")
	made, hashes, refused := t.admit(r)
	if refused != nil {
		t.metrics.refused.Inc()
		refused.Write(w, r, id)
		return
	}
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{tunnel.Protocol}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil { // Accept has answered
		t.end(made.ID, made.Tunnel.ID)
		return
	}
	c := newConnection(t, made, hashes, socket)
	t.work.Go(func() { t.serve(c, made.Tunnel) })
}

// admit checks the token and stores the new connection.
func (t *Tunnels) admit(r *http.Request) (tunnels.Connection, [][]byte, *problem.Problem) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Method != http.MethodGet:
		return tunnels.Connection{}, nil, problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.")
	case !ok || !tunnel.WellFormed(token):
		return tunnels.Connection{}, nil, unauthenticated()
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || !slices.Contains(protocols(r), tunnel.Protocol):
		return tunnels.Connection{}, nil, problem.New(problem.InvalidInput, "This is for agents of tunnels: start one with waybill tunnel run.")
	case !t.admits(token):
		p := problem.New(problem.RateLimited, "The tunnel is connected too often. Wait.")
		p.RetryAfter = openEvery * openBurst / 2
		return tunnels.Connection{}, nil, p
	}
	select {
	case t.lookUps <- struct{}{}:
		defer func() { <-t.lookUps }()
	case <-r.Context().Done():
		return tunnels.Connection{}, nil, unavailable()
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	hashes := t.options.Hasher.Hashes(token)
	made, err := t.options.Store.ConnectTunnel(ctx, hashes, domain.TunnelConnection{Process: t.options.Process, AgentVersion: agentVersion(r)})
	switch {
	case errors.Is(err, tunnels.ErrToken):
		return made, nil, unauthenticated()
	case errors.Is(err, domain.ErrLimit):
		return made, nil, problem.New(problem.Conflict, "The tunnel has 16 connections. It can't have more.")
	case err != nil:
		t.options.Logger.Warn("an agent can't be connected now", "error", err)
		return made, nil, unavailable()
	}
	return made, hashes, nil
}

func unauthenticated() *problem.Problem {
	return problem.New(problem.Unauthenticated, "The token is not valid, or not any more.")
}

func unavailable() *problem.Problem {
	p := problem.New(problem.Unavailable, "The gateway can't look the token up now. Try again.")
	p.RetryAfter = time.Second
	return p
}

// protocols returns the subprotocols that the client offers.
func protocols(r *http.Request) []string {
	var list []string
	for _, value := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return list
}

// agentVersion returns the version that the agent sends, without unprintable characters.
func agentVersion(r *http.Request) string {
	version := strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, r.Header.Get(tunnel.VersionHeader))
	return version[:min(len(version), maxVersion)]
}

// maxOpening is the number of tokens for which connections are counted.
const maxOpening = 10_000

// admits reports whether a token may connect now. It protects the gateway and the database from an agent
// that connects again and again.
func (t *Tunnels) admits(token string) bool {
	sum := sha256.Sum256([]byte(token))
	key := string(sum[:])
	t.mu.RLock()
	closed := t.closed
	t.mu.RUnlock()
	if closed {
		return false
	}
	t.openingMu.Lock()
	defer t.openingMu.Unlock()
	limiter := t.opening[key]
	if limiter == nil {
		if len(t.opening) >= maxOpening {
			clear(t.opening)
		}
		limiter = rate.NewLimiter(rate.Every(openEvery), openBurst)
		t.opening[key] = limiter
	}
	return limiter.Allow()
}

// serve runs a connection until it ends.
func (t *Tunnels) serve(c *connection, served tunnels.ServedTunnel) {
	defer t.end(c.id, c.tunnel)
	defer c.close()
	if err := c.begin(); err != nil {
		t.options.Logger.Debug("an agent does not speak", "tunnel", c.tunnel, "error", err)
		return
	}
	if refused := c.sendServices(served.Services); refused != "" {
		c.leave(closing{reason: "the agent refuses the services configuration: " + refused, code: tunnel.CloseRefused})
	} else if !t.join(c, served) {
		c.leave(closing{reason: "the gateway stops"})
	}
	<-c.done
	t.part(c)
}

// join makes a connection available for requests.
func (t *Tunnels) join(c *connection, served tunnels.ServedTunnel) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	one := t.byID[c.tunnel]
	if one == nil {
		one = &tunnelOf{served: served}
		t.byID[c.tunnel] = one
	}
	one.connections = append(one.connections, c)
	if one.unlisten == nil {
		one.unlisten = t.answerGateways(c.tunnel)
	}
	if one.known {
		served = one.served
	}
	t.provide(c, served)
	t.nudge() // the token is checked once more, for it may have ended in the meantime
	t.options.Logger.Info("an agent is connected", "tunnel", c.tunnel, "connection", c.id)
	return true
}

// part removes a connection.
func (t *Tunnels) part(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byID[c.tunnel]
	if one == nil {
		return
	}
	before := len(one.connections)
	one.connections = slices.DeleteFunc(one.connections, func(other *connection) bool { return other == c })
	if len(one.connections) == 0 && one.unlisten != nil {
		one.unlisten()
		one.unlisten = nil
	}
	if len(one.connections) < before {
		t.options.Logger.Info("an agent is gone", "tunnel", c.tunnel, "connection", c.id, "reason", c.reason())
	}
}

// end deletes the row of a connection. If the tunnel has an open operation, it may be done now.
func (t *Tunnels) end(connection, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := t.options.Store.EndConnection(ctx, connection); err != nil {
		t.options.Logger.Debug("the end of a connection is not noted; it is shown for some seconds more", "connection", connection, "error", err)
		return
	}
	t.mu.RLock()
	one := t.byID[id]
	open := one != nil && one.served.Operation != ""
	t.mu.RUnlock()
	if open {
		t.settleOne(ctx, id)
	}
}
