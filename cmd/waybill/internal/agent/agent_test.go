package agent_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/waybill/internal/agent"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/tunnel"
)

// A service behind a tunnel answers routes of the environments that may use it, over the gateway
// that has the connection and over another one.
func TestServiceBehindTunnel(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		near, far := r.gateway("near"), r.gateway("far")
		id, token := r.dig()
		shop, preview, other := r.deploy("shop", "main"), r.deploy("shop", "topic"), r.deploy("other", "main")
		near.agent(token, r.service.URL)
		r.connections(id, 2)
		for name, g := range map[string]*gatewayOf{"near": near, "far": far} {
			g.served(shop)
			got := g.ask(http.MethodGet, shop, "/orders/7?a=b%20c", "")
			if got.header.Get("X-Seen") != "GET /base/orders/7?a=b%20c" || !strings.Contains(got.header.Get("X-Forwarded"), shop) {
				t.Errorf("%s: %d %v", name, got.status, got.header)
			}
			for _, query := range []string{"", "?", "?z=1&a=2&c;d&e=%zz&f", "?a;b=1", "?q=+%20&q=\xe9"} {
				if got := g.ask(http.MethodGet, shop, "/orders/7"+query, ""); got.header.Get("X-Seen") != "GET /base/orders/7"+query {
					t.Errorf("%s: %q has become %q", name, query, got.header.Get("X-Seen"))
				}
			}
			for path, want := range map[string]string{"/slow?size=7": "7", "/slow?size=0": "0", "/slow?size=1048577": "1048577", "/orders/7": ""} {
				if got := g.ask(http.MethodHead, shop, path, ""); got.header.Get("Content-Length") != want || got.body != "" {
					t.Errorf("%s: HEAD %s: %d %v", name, path, got.status, got.header)
				}
			}
			for _, size := range []int{0, 1000, 512<<10 - 1, 512 << 10, 512<<10 + 1, 1 << 20} {
				body := strings.Repeat("y", size)
				got := g.ask(http.MethodPost, shop, "/orders/7", body)
				if got.status != http.StatusTeapot || got.body != body || got.header.Get("X-Seen") != "POST /orders/7" {
					t.Errorf("%s: %d bytes: %d, %d bytes back, %v", name, size, got.status, len(got.body), got.header)
				}
			}
			if got := g.ask(http.MethodPut, shop, "/orders/7", "x"); got.header.Get("X-Seen") != "PUT /rewritten/7" || got.body != "x" {
				t.Errorf("%s: %d %v", name, got.status, got.header)
			}
			if got := g.ask(http.MethodGet, shop, "/slow?size=1048577", ""); got.status != http.StatusBadGateway {
				t.Errorf("%s: an answer that is too long: %d", name, got.status)
			}
			for what, host := range map[string]string{"another environment": preview, "another project": other} {
				if got := g.ask(http.MethodGet, host, "/orders/7", ""); got.status != http.StatusBadGateway {
					t.Errorf("%s: %s: %d %s", name, what, got.status, got.body)
				}
			}
		}
		r.configure(id, r.service.URL, "preview")
		within(t, 10*time.Second, "it is for previews now", func() bool {
			return far.ask(http.MethodGet, shop, "/orders/7", "").status == http.StatusBadGateway &&
				far.ask(http.MethodGet, preview, "/orders/7", "").status == http.StatusTeapot
		})
		if strings.Contains(r.logs.String(), token.Reveal()) {
			t.Error("the token is in a log")
		}
	})
}

// Without an agent the answer is 502, at once; with one that comes back, it is served again.
func TestAgentGoesAndComes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g := r.gateway("one")
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		within(t, 10*time.Second, "it is loaded", func() bool { return g.ask(http.MethodGet, shop, "/orders/1", "").status == http.StatusBadGateway })
		a := g.agent(token)
		g.served(shop)
		a.stop()
		r.connections(id, 0)
		if got := g.ask(http.MethodGet, shop, "/orders/1", ""); got.status != http.StatusBadGateway {
			t.Errorf("%d", got.status)
		}
		got, err := r.tunnels.GetTunnel(t.Context(), account, id)
		if err != nil || got.Status != domain.TunnelDown {
			t.Errorf("%+v, %v", got, err)
		}
		g.agent(token)
		g.served(shop)
	})
}

// While an agent with the new token comes in the overlap, no request fails.
func TestRotationWithOverlap(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g, far := r.gateway("one"), r.gateway("two")
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		old := g.agent(token, r.service.URL)
		g.served(shop)
		far.served(shop)
		failed := make(chan answer, 1000)
		stop, done := make(chan struct{}), make(chan int)
		for _, through := range []*gatewayOf{g, far} {
			go func() {
				asked := 0
				for {
					select {
					case <-stop:
						done <- asked
						return
					default:
					}
					got, err := through.try(http.MethodPost, shop, "/orders/1", strings.NewReader("x"))
					asked++
					if err != nil || got.status != http.StatusTeapot {
						failed <- got
					}
				}
			}()
		}
		next := r.rotate(id, 3*time.Second)
		g.agent(next, r.service.URL)
		r.connections(id, 4)
		select {
		case err := <-old.ended:
			if refused, ok := errors.AsType[*agent.RefusedError](err); !ok {
				t.Errorf("the old agent ends with %v", err)
			} else if refused.Reason == "" {
				t.Error("it does not say why")
			}
		case <-time.After(20 * time.Second):
			t.Error("the old agent goes on")
		}
		r.connections(id, 2)
		close(stop)
		if n := <-done + <-done; n < 10 { // on a loaded machine they are few
			t.Errorf("only %d requests were made", n)
		}
		if len(failed) > 0 {
			t.Errorf("%d requests failed, one with %+v", len(failed), <-failed)
		}
	})
}

// Without an overlap the old token opens nothing within a second; what runs may end.
func TestRotationWithoutOverlap(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g := r.gateway("one")
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		old := g.agent(token, r.service.URL)
		g.served(shop)
		running := make(chan answer, 1)
		go func() {
			got, _ := g.try(http.MethodGet, shop, "/slow?wait=3s", strings.NewReader(""))
			running <- got
		}()
		within(t, 10*time.Second, "the slow request runs", func() bool { return r.slow.Load() == 1 })
		r.rotate(id, 0)
		began := time.Now()
		within(t, time.Second, "nothing is served", func() bool {
			return g.ask(http.MethodGet, shop, "/orders/1", "").status == http.StatusBadGateway
		})
		t.Logf("refused after %s", time.Since(began))
		if got := <-running; got.status != http.StatusTeapot {
			t.Errorf("what ran was broken off: %+v", got)
		}
		if err := <-old.ended; err == nil || !strings.Contains(err.Error(), "not valid") {
			t.Errorf("the old agent ends with %v", err)
		}
	})
}

// A tunnel that is deleted ends its connections, and the operation succeeds then.
func TestTeardown(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g := r.gateway("one")
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		a := g.agent(token, r.service.URL)
		g.served(shop)
		o, err := r.tunnels.DeleteTunnel(t.Context(), account, id)
		if err != nil || o.Status != domain.OperationInProgress {
			t.Fatalf("%+v, %v", o, err)
		}
		r.announce()
		within(t, 10*time.Second, "it is gone", func() bool {
			now, err := r.tunnels.TeardownOperation(t.Context(), account, id, o.ID)
			return err == nil && now.Status == domain.OperationSuccess
		})
		if got := g.ask(http.MethodGet, shop, "/orders/1", ""); got.status != http.StatusBadGateway {
			t.Errorf("%d", got.status)
		}
		var refused *agent.RefusedError
		if err := <-a.ended; !errors.As(err, &refused) {
			t.Errorf("the agent ends with %v", err)
		}
	})
}

// A configuration holds when all agents have taken it. One that an agent refuses does not, and
// the one before goes on.
func TestConfigurationOfAgents(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		near, far := r.gateway("near"), r.gateway("far")
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		near.agent(token, r.service.URL, "http://127.0.0.1:1")
		far.agent(token, r.service.URL)
		r.connections(id, 4)
		near.served(shop)
		end := func(o domain.TunnelOperation) (now domain.TunnelOperation) {
			within(t, 15*time.Second, "it ends", func() bool {
				var err error
				now, err = r.tunnels.ProvisioningOperation(t.Context(), account, id, o.ID)
				return err == nil && now.Status != domain.OperationInProgress
			})
			return now
		}
		o := r.configure(id, r.service.URL+"/deeper", "production")
		if now := end(o); o.Status != domain.OperationInProgress || now.Status != domain.OperationSuccess {
			t.Errorf("%+v, then %+v", o, now)
		}
		within(t, 5*time.Second, "it holds", func() bool {
			return far.ask(http.MethodGet, shop, "/orders/1", "").header.Get("X-Seen") == "GET /deeper/base/orders/1"
		})
		if now := end(r.configure(id, "http://127.0.0.1:1", "production")); now.Status != domain.OperationError || !strings.Contains(now.Details, "http://127.0.0.1:1 is not allowed by --allow") {
			t.Errorf("%+v", now)
		}
		within(t, 5*time.Second, "the one before goes on in all agents", func() bool {
			for range 20 {
				if near.ask(http.MethodGet, shop, "/orders/1", "").header.Get("X-Seen") != "GET /deeper/base/orders/1" {
					return false
				}
			}
			return true
		})
	})
}

// Who has no token, or a wrong one, is refused, and told so.
func TestRefusedAgents(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g := r.gateway("one")
		for _, token := range []domain.Secret{"", "wbt_x", tunnel.NewToken()} {
			a := g.agent(token)
			var refused *agent.RefusedError
			if err := <-a.ended; !errors.As(err, &refused) || refused.Reason == "" {
				t.Errorf("it ends with %v", err)
			}
		}
		if got := g.ask(http.MethodGet, "localhost", tunnel.ConnectPath, ""); got.status != http.StatusUnauthorized {
			t.Errorf("without a token: %d %s", got.status, got.body)
		}
	})
}

// Origins are compared as such: by scheme, host and port, and never by how a text begins.
func TestOrigins(t *testing.T) {
	t.Parallel()
	same := func(a, b string) bool {
		x, err := agent.ParseOrigin(a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := agent.ParseOrigin(b)
		return err == nil && x == y
	}
	for _, pair := range [][2]string{
		{"http://orders", "http://orders:80"}, {"http://Orders:3000/", "http://orders:3000"}, {"https://a", "https://a:443"}, {"http://[::1]:80", "http://[::1]"},
	} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%s is not %s", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"http://orders:300", "http://orders:3000"}, {"http://orders", "http://orders.evil.example"}, {"http://a", "https://a"}, {"http://10.0.0.1", "http://10.0.0.11"},
	} {
		if same(pair[0], pair[1]) {
			t.Errorf("%s is %s", pair[0], pair[1])
		}
	}
	for _, wrong := range []string{"", "orders", "ftp://a", "http://", "http://a/b", "http://u@a", "http://a?b", "http://a#b", "http://a:0", "http://a:70000", "*",
		// A resolver may take these for addresses, and no text of ours compares so.
		"http://127.0.0.1.:1", "http://127.1", "http://2130706433", "http://0x7f.0.0.1", "http://0177.0.0.1", "http://127.0.0.0x1", "http://a.1"} {
		if _, err := agent.ParseOrigin(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
