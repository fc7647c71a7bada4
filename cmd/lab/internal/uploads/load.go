package uploads

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"waybill.dev/cmd/lab/internal/load"
)

const (
	// answersWithin is how long a request may take.
	answersWithin = 10 * time.Second
	// inFlight is how many requests are open at once at most.
	inFlight = 1024
	examples = 5 // of what is wrong
)

// Load sends requests to a deployment through each of its gateways, half of them over kept
// connections and half over new ones.
type Load struct {
	host     string
	gateways []*gateway
	clients  [2]*http.Client
	rate     int

	mu       sync.Mutex
	floor    int // no request that begins now may be answered by an older release
	highest  int // that was uploaded
	released map[int]time.Time
	result   Result
	took     []time.Duration
}

// gateway is one process. The load's mutex guards it.
type gateway struct {
	address string
	away    bool
	awayEnd time.Time // of the last time that it was away
	seen    int       // the newest release that has answered
	first   map[int]time.Time
}

// Result is what came of the requests.
type Result struct {
	Requests int // answered by a gateway that was there
	Failed   int // no answer, or not 200
	Mixed    int // of two releases, or of none that was uploaded
	Stale    int // of a release that was out of date
	Examples []string
	// Slowest is the longest time from the end of a build until a gateway answered with it, or
	// with a later one.
	Slowest time.Duration
	P50     time.Duration
	P99     time.Duration
}

// NewLoad makes a load of so many requests a second, in all. host is the name of the deployment
// with its domain; gateways are addresses, host:port.
func NewLoad(host string, gateways []string, rate int) *Load {
	l := &Load{host: host, rate: rate, released: make(map[int]time.Time)}
	for _, address := range gateways {
		l.gateways = append(l.gateways, &gateway{address: address, first: make(map[int]time.Time)})
	}
	for i, fresh := range []bool{false, true} {
		l.clients[i] = &http.Client{Timeout: answersWithin, Transport: &http.Transport{
			MaxIdleConnsPerHost: inFlight, DisableKeepAlives: fresh, Proxy: nil,
		}}
	}
	return l
}

// Run sends requests until ctx is done, and waits for the last answers. What too many open ones leave out
// has to be seen to fail.
func (l *Load) Run(ctx context.Context) {
	asking, gateways := context.WithoutCancel(ctx), int64(len(l.gateways))
	load.Pace(ctx, l.rate, inFlight, func(n int64) {
		l.ask(asking, l.gateways[n%gateways], l.clients[n/gateways%int64(len(l.clients))])
	})
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
}

// ask sends one request and judges its answer.
func (l *Load) ask(ctx context.Context, g *gateway, client *http.Client) {
	l.mu.Lock()
	if g.away {
		l.mu.Unlock()
		return
	}
	floor := max(l.floor, g.seen)
	l.mu.Unlock()
	begun := time.Now()
	said, err := l.say(ctx, g, client)
	ended := time.Now()

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && (g.away || g.awayEnd.After(begun)) {
		return
	}
	l.result.Requests++
	l.took = append(l.took, ended.Sub(begun))
	switch {
	case err != nil:
		l.wrong(&l.result.Failed, "%s at %s: %v", g.address, begun.Format(clock), err)
	case said.body != said.header || said.release < 1 || said.release > l.highest:
		l.wrong(&l.result.Mixed, "%s at %s: the body says %q, the header %q, and %d was uploaded", g.address, begun.Format(clock), said.body, said.header, l.highest)
	case said.release < floor:
		l.wrong(&l.result.Stale, "%s at %s: release %d, and %d was there", g.address, begun.Format(clock), said.release, floor)
	case said.release > g.seen:
		g.seen = said.release
		g.first[said.release] = ended
	}
}

const clock = "15:04:05.000"

func (l *Load) wrong(count *int, format string, args ...any) {
	*count++
	if *count <= examples {
		l.result.Examples = append(l.result.Examples, fmt.Sprintf(format, args...))
	}
}

// saying is what a gateway answers.
type saying struct {
	body, header string
	release      int
}

func (l *Load) say(ctx context.Context, g *gateway, client *http.Client) (saying, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.address+Path, http.NoBody)
	if err != nil {
		return saying{}, err
	}
	request.Host = l.host
	answer, err := client.Do(request)
	if err != nil {
		return saying{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return saying{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return saying{}, fmt.Errorf("%d %s", answer.StatusCode, text)
	}
	s := saying{body: string(text), header: answer.Header.Get(releaseHeader)}
	s.release, err = strconv.Atoi(s.body)
	return s, err
}

// Serves asks every gateway once, and reports whether all answer with a release, or a later one.
func (l *Load) Serves(ctx context.Context, n int) bool {
	return !slices.ContainsFunc(l.gateways, func(g *gateway) bool {
		said, err := l.say(ctx, g, l.clients[0])
		return err != nil || said.release < n
	})
}

// Uploading says that a release may be served from now on.
func (l *Load) Uploading(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.highest = max(l.highest, n)
}

// Released says that the build of a release was successful. From within on no older one may
// answer.
func (l *Load) Released(n int, within time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released[n] = time.Now()
	if within <= 0 {
		l.floor = max(l.floor, n)
		return
	}
	time.AfterFunc(within, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.floor = max(l.floor, n)
	})
}

// Away says that a gateway is not there; its failures don't count until it is Back.
func (l *Load) Away(address string) { l.set(address, true) }

// Back says that a gateway is there again.
func (l *Load) Back(address string) { l.set(address, false) }

func (l *Load) set(address string, away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.gateways {
		if g.address == address {
			g.away, g.awayEnd = away, time.Now()
		}
	}
}

// Answered returns how many requests there were since the last mark.
func (l *Load) Answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result.Requests
}

// Mark returns what came of the requests since the last mark, and begins anew. Releases that
// not every gateway has answered with yet count to the next.
func (l *Load) Mark() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.result
	slices.Sort(l.took)
	if n := len(l.took); n > 0 {
		r.P50, r.P99 = l.took[n/2], l.took[n*99/100]
	}
	for n, at := range l.released {
		everywhere := true
		for _, g := range l.gateways {
			first := g.answered(n)
			everywhere = everywhere && !first.IsZero()
			r.Slowest = max(r.Slowest, first.Sub(at))
		}
		if everywhere {
			delete(l.released, n)
		}
	}
	l.result, l.took = Result{}, nil
	return r
}

// answered returns when a gateway first answered with a release, or a later one; zero: not yet.
func (g *gateway) answered(n int) time.Time {
	var first time.Time
	for release, at := range g.first {
		if release >= n && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Wrong returns an explanation of the requests that failed or had a wrong answer; empty: every request was right.
func (r Result) Wrong() string {
	if r.Failed+r.Mixed+r.Stale == 0 {
		return ""
	}
	return fmt.Sprintf("of %d requests %d failed, %d were of two releases, %d of one out of date, such as %q", r.Requests, r.Failed, r.Mixed, r.Stale, r.Examples)
}
