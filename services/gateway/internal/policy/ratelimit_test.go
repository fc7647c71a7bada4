package policy_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/problem"
)

// from is a request from an address, by a caller when there is one.
func from(remote, caller string) *route.Request {
	r := request()
	r.Remote = remote
	if caller != "" {
		r.Principal = &apikey.Principal{Account: "default", ID: caller}
	}
	return r
}

// waits returns how long the caller of r has to wait, by the counts of a runtime; -1: it is
// not told.
func waits(t *testing.T, counts *route.Runtime, in route.Inbound, r *route.Request) time.Duration {
	t.Helper()
	r.Runtime = counts
	_, err := in.In(t.Context(), r)
	if err == nil {
		return 0
	}
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok || p.Status() != 429 {
		t.Fatalf("got %v", err)
	}
	if p.RetryAfter == 0 {
		return -1
	}
	return p.RetryAfter
}

func TestRateLimitWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counts := runtime(keys{})
		in := inbound(t, "rate-limit-inbound", `{"rateLimitBy":"ip","requestsAllowed":3,"timeWindowMinutes":0.5}`, operation())
		one, two := from("192.0.2.1", ""), from("192.0.2.2", "")
		step := func(r *route.Request, want time.Duration) {
			t.Helper()
			if got := waits(t, counts, in, r); got != want {
				t.Errorf("waits %s, want %s", got, want)
			}
		}
		step(one, 0)
		<-time.After(10 * time.Second)
		step(one, 0)
		step(one, 0)
		step(one, 20*time.Second)
		step(two, 0)
		<-time.After(20*time.Second - 1)
		step(one, 1)
		<-time.After(1)
		// The window has passed: another one begins, of two not yet.
		step(one, 0)
		step(two, 0)
		step(two, 0)
		step(two, 10*time.Second)
		step(one, 0)
		step(one, 0)
		step(one, 30*time.Second)
	})
}

func TestRateLimitBy(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		by     string
		a, b   *route.Request
		shared bool
	}{
		{"ip", from("192.0.2.1", ""), from("192.0.2.2", ""), false},
		{"ip", from("192.0.2.1", "a"), from("192.0.2.1", "b"), true},
		{"ip", from("192.0.2.1", ""), from("::ffff:192.0.2.1", ""), true},
		{"ip", from("2001:db8::1", ""), from("2001:db8::ffff:2", ""), true},
		{"ip", from("2001:db8::1", ""), from("2001:db8:0:1::1", ""), false},
		{"user", from("192.0.2.1", "a"), from("192.0.2.2", "a"), true},
		{"user", from("192.0.2.1", "a"), from("192.0.2.1", "b"), false},
		{"user", from("192.0.2.1", "a"), from("192.0.2.1", ""), false},
		{"user", from("192.0.2.1", ""), from("192.0.2.1", ""), true},
		{"all", from("192.0.2.1", "a"), from("192.0.2.2", "b"), true},
	} {
		counts := runtime(keys{})
		in := inbound(t, "rate-limit-inbound", `{"rateLimitBy":"`+row.by+`","requestsAllowed":1,"timeWindowMinutes":1}`, operation())
		if waits(t, counts, in, row.a) != 0 {
			t.Errorf("by %s: the first one waits", row.by)
		}
		if got := waits(t, counts, in, row.b) != 0; got != row.shared {
			t.Errorf("by %s: %s %v and %s %v share their limit: %v, want %v", row.by, row.a.Remote, row.a.Principal, row.b.Remote, row.b.Principal, got, row.shared)
		}
	}
}

// A limit is one for all routes that name the policy, also after the routes were loaded
// again, until what it allows is changed.
func TestRateLimitIsShared(t *testing.T) {
	t.Parallel()
	const options = `{"rateLimitBy":"all","requestsAllowed":1,"timeWindowMinutes":1,"headerMode":"none"}`
	counts := runtime(keys{})
	if waits(t, counts, inbound(t, "rate-limit-inbound", options, operation()), request()) != 0 {
		t.Error("the first request waits")
	}
	if waits(t, counts, inbound(t, "rate-limit-inbound", options, operation()), request()) != -1 {
		t.Error("the second route has a limit of its own, or tells how long to wait")
	}
	if _, faults := made(t, definition("rate-limit-inbound", `{"rateLimitBy":"all","requestsAllowed":9,"timeWindowMinutes":1}`)); len(faults) > 0 {
		t.Error(faults)
	}
	if waits(t, counts, inbound(t, "rate-limit-inbound", options, operation()), request()) != -1 {
		t.Error("a definition that was only checked has ended the count")
	}
	if waits(t, counts, inbound(t, "rate-limit-inbound", `{"rateLimitBy":"all","requestsAllowed":2,"timeWindowMinutes":1}`, operation()), request()) != 0 {
		t.Error("what was changed does not count anew")
	}
}

// Who comes from ever new addresses does not make the count grow without end, nor forgets
// it those who call often.
func TestRateLimitForgets(t *testing.T) {
	t.Parallel()
	counts := runtime(keys{})
	in := inbound(t, "rate-limit-inbound", `{"rateLimitBy":"ip","requestsAllowed":1000000,"timeWindowMinutes":600}`, operation())
	spent := inbound(t, "rate-limit-inbound", `{"rateLimitBy":"ip","requestsAllowed":1,"timeWindowMinutes":600}`, operation())
	regular, early := from("198.51.100.1", ""), from("198.51.100.2", "")
	waits(t, counts, spent, regular)
	waits(t, counts, spent, early)
	addr := netip.MustParseAddr("10.0.0.0")
	for i := range 70_000 {
		r := from(addr.String(), "")
		if waits(t, counts, in, r) != 0 || waits(t, counts, spent, r) != 0 {
			t.Fatalf("the request from %s waits", addr)
		}
		if i%1000 == 0 && waits(t, counts, spent, regular) == 0 {
			t.Fatalf("after %d others, the regular one is forgotten", i)
		}
		addr = addr.Next()
	}
	if waits(t, counts, spent, early) != 0 {
		t.Error("who has not called for 70,000 callers is still known")
	}
}
