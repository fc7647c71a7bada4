package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

const (
	// turns are how often each way is measured, one after the other, in as many rounds: the
	// machine may become slower or faster meanwhile. The median counts.
	turns = 5
	// ofBare is how much of the bare proxy's rate is to be reached.
	ofBare = 0.8
)

// passage is one way through which the same is asked for.
type passage struct {
	name    string // what is asked for
	through string // the process, by its name among the figures
	ask     load.Ask
	bare    string // the passage of the bare proxy that it is compared with; empty: it is one itself
	runs    []figures
}

func (p *passage) String() string { return p.name + ", " + p.through }

// crossing is what stands between callers and a back end.
type crossing struct {
	*bench
	back, proxy, caller *load.Child
	groups              []meter.Group
	backAddress         string
	cert, key           string // files
	peers               []peer
	passages            []*passage
}

// gateway measures routes beside a bare proxy and chosen peers.
func gateway(ctx context.Context, b *bench, n int, g *growth) (err error) {
	g.requests = true
	c := &crossing{bench: b}
	if c.peers, err = chosenPeers(b.peers); err != nil {
		return err
	}
	if err := c.certify(); err != nil {
		return err
	}
	var undo []func() error
	defer func() {
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
	}()
	for kind, child := range map[string]**load.Child{load.KindBackEnd: &c.back, load.KindProxy: &c.proxy, load.KindCaller: &c.caller} {
		if *child, err = load.Start(ctx, kind); err != nil {
			return err
		}
		undo = append(undo, (*child).Close)
		c.groups = append(c.groups, meter.Group{Name: kind, Pid: (*child).Pid()})
	}
	back, err := c.back.Open(b.size)
	if err != nil {
		return err
	}
	c.backAddress = back.Address
	bare, err := c.proxy.Proxy(back.Address, c.cert, c.key)
	if err != nil {
		return err
	}
	c.add(n, load.KindProxy, bare.Address, bare.TLSAddress, "")
	r, err := c.openWaybill(ctx, n, g.Form)
	if r != nil {
		undo = append(undo, r.close)
	}
	if err != nil {
		return err
	}
	for _, p := range c.peers {
		stop, err := c.openPeer(ctx, p, n)
		if err != nil {
			return err
		}
		undo = append(undo, stop)
	}
	return c.measure(ctx, r, g)
}

// add adds what is asked for at two addresses; key is for the route that needs one.
func (c *crossing) add(n int, through, address, secure, key string) {
	one := func(name, path, bare, key string) {
		a := load.Ask{Address: address, Path: path, Key: key, Connections: n, For: c.duration}
		if strings.HasSuffix(name, overTLS) {
			a.Address, a.TLS = secure, true
		}
		if through == load.KindProxy {
			bare = ""
		}
		c.passages = append(c.passages, &passage{name: name, through: through, ask: a, bare: bare})
	}
	one("static", load.StaticPath, "static", "")
	one("forward", "/forward", "forward", "")
	one("forward 1 MiB", load.LargePath, "forward 1 MiB", "")
	one("forward"+overTLS, "/forward", "forward"+overTLS, "")
	if key != "" {
		one("key, rate limit, forward", "/guarded", "forward", key)
	}
}

// overTLS ends the name of what is asked for by HTTPS.
const overTLS = " over TLS"

// openWaybill starts a form of Waybill, and adds what is asked for there. The rig is returned with an error, too, once it runs.
func (c *crossing) openWaybill(ctx context.Context, n int, form string) (*rig, error) {
	secure, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.open(ctx, form, secure)
	if err != nil {
		return nil, err
	}
	c.groups = append(c.groups, r.own()...)
	_, key, err := r.api.NewAccount(ctx, "bench-gateway")
	if err != nil {
		return r, err
	}
	through := "api"
	if form == formAllInOne {
		through = "waybill"
	}
	c.add(n, through, strings.TrimPrefix(r.stack.URL, "http://"), secure, key)
	if form == formAllInOne {
		return r, nil
	}
	return r, c.crowd(ctx, r, n)
}

// open starts a form of Waybill with routes to the back end. It serves HTTPS at the address secure.
func (c *crossing) open(ctx context.Context, form, secure string) (*rig, error) {
	dir, err := os.MkdirTemp("", "waybill-bench-routes-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of routes: %w", err)
	}
	c.undo = append(c.undo, func() error { return os.RemoveAll(dir) })
	for name, text := range map[string]string{"policies.json": gatewayPolicies, "bench.oas.json": fmt.Sprintf(gatewayRoutes, load.StaticText, c.backAddress, load.LargePath)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write a route file: %w", err)
		}
	}
	o := stack.Options{Name: "gateway-" + form, Dispatchers: 1, Gateways: 1, Routes: dir, Settings: map[string]string{
		"WAYBILL_ROUTES_DIR": dir, "WAYBILL_TLS_ADDR": secure, "WAYBILL_TLS_CERT": c.cert, "WAYBILL_TLS_KEY": c.key,
	}}
	start := c.site.Split
	if form == formAllInOne {
		start = c.site.AllInOne
	}
	st, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &rig{bench: c.bench, form: form, stack: st, api: st.Client()}, nil
}

const gatewayPolicies = `{"policies":[
	{"name":"key","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"accounts":"*"}}},
	{"name":"rate","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy",
		"options":{"rateLimitBy":"user","requestsAllowed":1000000000,"timeWindowMinutes":1}}}]}`

const gatewayRoutes = `{"openapi":"3.1.0","info":{"title":"Bench","version":"1"},"paths":{
	"/static":{"get":{"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":%[1]q,"contentType":"text/plain"}}}}},
	"/forward":{"get":{"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"http://%[2]s"}}}}},
	%[3]q:{"get":{"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"http://%[2]s"}}}}},
	"/guarded":{"get":{"x-gateway-route":{"policies":{"inbound":["key","rate"]},
		"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"http://%[2]s"}}}}}}}`

// measure goes through all passages, round by round.
func (c *crossing) measure(ctx context.Context, r *rig, g *growth) error {
	rounds := turns
	if c.quick {
		rounds = 1
	}
	for round := range rounds + 1 {
		for _, p := range c.passages {
			if round == 0 { // to warm up
				warm := p.ask
				warm.For = min(time.Second, c.duration)
				if _, err := c.caller.Ask(warm); err != nil {
					return fmt.Errorf("warm up %s: %w", p, err)
				}
				continue
			}
			taken := r.profile(ctx, r.profiles, fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(p.name, ", ", "-"), p.through, round), r.duration)
			err := c.run(ctx, p, g)
			if err := errors.Join(err, taken.wait()); err != nil {
				return err
			}
		}
	}
	c.judge(g)
	return nil
}

func (c *crossing) run(ctx context.Context, p *passage, g *growth) error {
	before, err := meter.CPU(c.groups)
	if err != nil {
		return err
	}
	sampler := meter.Watch(ctx, slices.DeleteFunc(slices.Clone(c.groups), func(g meter.Group) bool { return g.Name != p.through }))
	done, err := c.caller.Ask(p.ask)
	memory, watched := sampler.Stop()
	err = errors.Join(err, watched)
	if err != nil {
		return fmt.Errorf("measure %s: %w", p, err)
	}
	after, err := meter.CPU(c.groups)
	if err != nil {
		return err
	}
	f := figures{Events: done.Events, Deliveries: done.Events, Accepted: done.PerSecond(), Delivered: done.PerSecond(), Latency: done.Latency, Refused: done.Refused}
	f.use(before, after, memory)
	maps.DeleteFunc(f.CPU, func(name string, _ float64) bool { return name != p.through })
	f.CPUSum = f.CPU[p.through]
	p.runs = append(p.runs, f)
	c.say("  %s: %s/s, p99 %s ms, %s ms CPU for 1000", p, grouped(f.Delivered), number(f.Latency.P99), number(f.CPUSum))
	if done.Refused > 0 {
		g.fail("%s: %d were refused, the first with %s", p, done.Refused, done.Fault)
	}
	return nil
}

// judge notes the median run of each passage, and compares it with the bare one's.
func (c *crossing) judge(g *growth) {
	medians := make(map[string]figures)
	for _, p := range c.passages {
		slices.SortFunc(p.runs, func(a, b figures) int { return int(a.Delivered - b.Delivered) })
		f := p.runs[len(p.runs)/2]
		g.Points = append(g.Points, point{At: p.ask.Connections, What: p.String(), figures: f})
		medians[p.String()] = f
	}
	for _, p := range c.passages {
		if p.bare == "" || c.isPeer(p.through) {
			continue
		}
		want := func(of string, least float64) {
			got := medians[p.String()].Delivered / medians[p.bare+", "+of].Delivered
			g.Verdicts = append(g.Verdicts, verdict{Figure: p.name + ": requests/s, of those of " + of, Least: true, Want: least, Got: got, Met: got >= least})
		}
		want(load.KindProxy, ofBare)
		for _, other := range c.peers {
			want(other.program, other.atLeast)
		}
	}
}

func (c *crossing) isPeer(name string) bool {
	return slices.ContainsFunc(c.peers, func(p peer) bool { return p.program == name })
}
