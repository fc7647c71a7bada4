// Package agent is the other end of a tunnel: it stands in a network that gateways can't reach,
// connects to a gateway, and answers its requests from the services there.
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
	// connections is how many an agent has at a time, so that one can be replaced.
	connections = 2
	// The waiting before another try, which doubles from the one to the other.
	firstWait, lastWait = time.Second, 30 * time.Second
	// lasting is how long a connection has to have lasted for the waiting to begin anew.
	lasting = 10 * time.Second
)

// Options of an agent; Allow may be empty.
type Options struct {
	Gateway *url.URL // http or https, without a path
	Token   domain.Secret
	// Allow are the origins of services that the agent takes; none: all that configurations name.
	Allow   []Origin
	Version string
	Logger  *slog.Logger
}

// RefusedError tells why gateways take no connection with the token.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return "the gateway refuses the token: " + e.Reason }

// Run keeps connections to the gateway until ctx ends. It fails with a *RefusedError; whatever
// else goes wrong is tried again.
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

	transport *http.Transport // to services
	dialer    *http.Client    // to gateways
}

// keep has one connection at a time that takes requests, until ctx ends. One that takes no more
// of them goes on beside its successor until its requests are done.
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
				continue // the gateway said in time that it ends
			}
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, lastWait)
	}
}

// pause waits, up to a fifth more or less, and tells whether there is a reason to go on.
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

// ConnectURL returns where agents of a gateway connect.
func ConnectURL(gateway *url.URL) (*url.URL, error) {
	if gateway.Scheme != "http" && gateway.Scheme != "https" || gateway.Host == "" || gateway.User != nil {
		return nil, fmt.Errorf("the gateway's address %q is no http or https URL", gateway.Redacted()) //nolint:err113 // it is a text for people
	}
	return gateway.JoinPath(tunnel.ConnectPath), nil
}
