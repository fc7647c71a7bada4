// Package agent is the other end of a tunnel: it runs in a network that gateways can't reach,
// connects to a gateway, and passes the gateway's requests to the services there.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/tunnel"
)

const (
	// connections is how many connections an agent has. While one is replaced, the other works.
	connections = 2
	// After a failure the agent waits. Each wait is twice as long as the one before.
	firstWait, lastWait = time.Second, 30 * time.Second
	// lasting: after a connection that lasted at least this long, the waits begin with firstWait
	// again.
	lasting = 10 * time.Second
)

// Options of an agent.
type Options struct {
	Gateway *url.URL // http or https, without a path
	Token   domain.Secret
	// Allow has the origins that services may have.
	Allow []Origin
	// AllowAny accepts every service that a configuration names: all that this machine reaches.
	AllowAny bool
	Version  string
	Logger   *slog.Logger
}

// RefusedError says why the gateway refuses the token.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return "the gateway refuses the token: " + e.Reason }

// Run keeps connections to the gateway until ctx ends. It fails only with a *RefusedError; after
// other failures it tries again.
func Run(ctx context.Context, o Options) error {
	if !tunnel.WellFormed(o.Token.Reveal()) {
		return &RefusedError{"it is no token of a tunnel: those begin with wbt_"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &agent{Options: o, transport: newTransport(), dialer: &http.Client{Transport: newTransport()}}
	defer a.transport.CloseIdleConnections()
	defer a.dialer.CloseIdleConnections()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			if err := a.keep(ctx, &group); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	if refused, ok := errors.AsType[*RefusedError](context.Cause(ctx)); ok {
		return refused
	}
	return nil
}

type agent struct {
	Options

	transport *http.Transport // for services
	dialer    *http.Client    // for gateways
}

// keep holds one connection that accepts requests, and replaces it when it ends, until ctx ends. A
// connection that accepts no new requests stays open until its running requests are done.
func (a *agent) keep(ctx context.Context, group *sync.WaitGroup) error {
	wait := firstWait
	for {
		began := time.Now()
		c, err := a.open(ctx)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			return refused
		}
		if err == nil {
			ended := make(chan struct{})
			group.Go(func() {
				defer close(ended)
				c.serve(ctx)
			})
			select {
			case <-ended:
			case <-c.left:
			}
			a.Logger.Info("a connection to the gateway ends", "reason", c.reason())
		} else if ctx.Err() == nil {
			a.Logger.Warn("the gateway can't be connected to; it is tried again", "after", wait.Round(time.Second).String(), "error", err)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop, and not failed
		}
		if time.Since(began) >= lasting {
			wait = firstWait
			if err == nil && c.asked() {
				continue // the gateway announced the end
			}
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, lastWait)
	}
}

// pause waits for a time, with a jitter of a fifth. It returns false if ctx ended.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))) //nolint:gosec // it spreads agents, and guards nothing
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connectURL returns the URL at which agents connect to a gateway.
func connectURL(gateway *url.URL) (*url.URL, error) {
	if gateway.Scheme != "http" && gateway.Scheme != "https" || gateway.Host == "" || gateway.User != nil {
		return nil, fmt.Errorf("the gateway's address %q is no http or https URL", gateway.Redacted()) //nolint:err113 // it is a text for people
	}
	return gateway.JoinPath(tunnel.ConnectPath), nil
}
