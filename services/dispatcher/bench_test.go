package dispatcher_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/signature"
)

// BenchmarkDeliver measures deliveries from the bus to a receiver in this process, with
// all that belongs to them: fan-out, signing, posting and the log in the database. Its
// ceiling is the bare loop: signing and posting alone, with as many at once.
func BenchmarkDeliver(b *testing.B) {
	for _, hooks := range []int{1, 10} {
		b.Run("webhooks="+strconv.Itoa(hooks), func(b *testing.B) {
			b.Run("bare", func(b *testing.B) { bareLoop(b, hooks) })
			b.Run("sqlite", func(b *testing.B) { throughDispatcher(b, hooks, "sqlite:"+filepath.Join(b.TempDir(), "w.db")) })
			b.Run("postgres", func(b *testing.B) {
				url, err := cluster.CreateDatabase(b.Context(), "b"+strconv.FormatInt(time.Now().UnixNano(), 36))
				if err != nil {
					b.Fatal(err)
				}
				throughDispatcher(b, hooks, url)
			})
		})
	}
}

// BenchmarkOrder measures deliveries of 10,000 shipments, in turn, to one webhook with and without
// order: go test -run - -bench Order -benchtime 30000x
func BenchmarkOrder(b *testing.B) {
	for _, ordering := range domain.Orderings() {
		b.Run(string(ordering), func(b *testing.B) { inOrderOf(b, ordering) })
	}
}

// BenchmarkOrderLatency measures one event after the other, each to another account, from its publication
// until it arrives: of 1 and 100 accounts with a webhook each, with and without order. What
// the dispatcher costs while nothing happens is told besides: go test -run - -bench OrderLatency -benchtime 1000x
func BenchmarkOrderLatency(b *testing.B) {
	for _, accounts := range []int{1, 100} {
		for _, ordering := range domain.Orderings() {
			b.Run(fmt.Sprintf("accounts=%d/%s", accounts, ordering), func(b *testing.B) { oneByOne(b, accounts, ordering) })
		}
	}
}

func oneByOne(b *testing.B, accounts int, ordering domain.Ordering) {
	b.Helper()
	c, bench := newCounter(b), newBench(b, "sqlite:"+filepath.Join(b.TempDir(), "w.db"))
	for i := range accounts {
		if _, _, err := bench.store.CreateWebhook(b.Context(), domain.Webhook{
			Account: "a" + strconv.Itoa(i), URL: c.url, Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(),
			Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Ordering: ordering, OrderingMaxWait: time.Hour,
		}, nil); err != nil {
			b.Fatal(err)
		}
	}
	bench.dispatch()
	published := make(chan error, 1)
	send := func(i int) time.Duration {
		account, round := i%accounts, i/accounts
		a := bus.Accepted{Event: domain.Event{
			Account: "a" + strconv.Itoa(account), ID: "evt_" + strconv.Itoa(i), Type: domain.ShipmentCreated, ReceivedAt: time.Now(),
			Payload: []byte(strings.Replace(string(payload), "shp_1", "shp_"+strconv.Itoa(round), 1)),
		}}
		if ordering == domain.OrderingShipment {
			a.Place = int64(round + 1)
		}
		c.want.Store(int64(i + 1))
		started := time.Now()
		bench.bus.PublishEvent(a, 0, func(_ bool, err error) { published <- err })
		<-c.full
		took := time.Since(started)
		if err := <-published; err != nil {
			b.Fatal(err)
		}
		return took
	}
	for i := range accounts { // each account's order begins
		send(i)
	}
	idle := processTime(b)
	<-time.After(2 * time.Second)
	idle = processTime(b) - idle
	var all []time.Duration
	b.ResetTimer()
	for i := range b.N {
		all = append(all, send(accounts+i))
	}
	b.StopTimer()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(idle.Milliseconds())/2, "idle-ms/s")
}

// processTime returns the processor time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func inOrderOf(b *testing.B, ordering domain.Ordering) {
	b.Helper()
	url, err := cluster.CreateDatabase(b.Context(), "o"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err != nil {
		b.Fatal(err)
	}
	c, bench := newCounter(b), newBench(b, url)
	if _, _, err := bench.store.CreateWebhook(b.Context(), domain.Webhook{
		Account: domain.DefaultAccount, URL: c.url, Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(),
		Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Ordering: ordering, OrderingMaxWait: time.Hour,
	}, nil); err != nil {
		b.Fatal(err)
	}
	c.want.Store(int64(b.N))
	bench.dispatch()
	published := make(chan error, b.N)
	b.ResetTimer()
	for i := range b.N {
		a := bus.Accepted{Event: domain.Event{
			Account: domain.DefaultAccount, ID: "evt_" + strconv.Itoa(i), Type: domain.ShipmentCreated, ReceivedAt: time.Now(),
			Payload: []byte(strings.Replace(string(payload), "shp_1", "shp_"+strconv.Itoa(i%10_000), 1)),
		}}
		if ordering == domain.OrderingShipment {
			a.Place = int64(i + 1)
		}
		bench.bus.PublishEvent(a, 0, func(_ bool, err error) { published <- err })
	}
	<-c.full
	b.StopTimer()
	report(b, b.N)
	for range b.N {
		if err := <-published; err != nil {
			b.Fatal(err)
		}
	}
}

// counter is a receiver that only counts, and tells when want have come.
type counter struct {
	url  string
	seen atomic.Int64
	want atomic.Int64
	full chan struct{}
}

func newCounter(b *testing.B) *counter {
	b.Helper()
	c := &counter{full: make(chan struct{}, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(`{"ok":true}`))
		if c.seen.Add(1) == c.want.Load() {
			c.full <- struct{}{}
		}
	})}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })
	c.url = "http://" + listener.Addr().String() + "/"
	return c
}

var payload = []byte(`{"id":"evt_0","type":"shipment.created","timestamp":"2026-11-16T13:04:11Z","data":{"shipmentId":"shp_1","note":"` + strings.Repeat("x", 900) + `"}}`)

func bareLoop(b *testing.B, hooks int) {
	b.Helper()
	c := newCounter(b)
	n := b.N * hooks
	c.want.Store(int64(n))
	key, err := signature.ParseSecret(domain.NewSecret().Reveal())
	if err != nil {
		b.Fatal(err)
	}
	signer := signature.NewSigner(key)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var left atomic.Int64
	left.Store(int64(n))
	b.ResetTimer()
	for range domain.DefaultMaxInFlight {
		go func() {
			for left.Add(-1) >= 0 {
				request, _ := http.NewRequest(http.MethodPost, c.url, strings.NewReader(string(payload)))
				request.Header.Set("webhook-signature", signer.Sign("evt_0", time.Now(), payload))
				response, err := client.Do(request)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}()
	}
	<-c.full
	b.StopTimer()
	report(b, n)
}

func throughDispatcher(b *testing.B, hooks int, url string) {
	b.Helper()
	bench := newBench(b, url)
	c := newCounter(b)
	for range hooks {
		if _, _, err := bench.store.CreateWebhook(b.Context(), domain.Webhook{
			Account: domain.DefaultAccount, URL: c.url, Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(),
			Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight,
		}, nil); err != nil {
			b.Fatal(err)
		}
	}
	n := b.N * hooks
	c.want.Store(int64(n))
	bench.dispatch()
	published := make(chan error, b.N)
	b.ResetTimer()
	for i := range b.N {
		bench.bus.PublishEvent(bus.Accepted{Event: domain.Event{
			Account: domain.DefaultAccount, ID: "evt_" + strconv.Itoa(i), Type: domain.ShipmentCreated, Payload: payload, ReceivedAt: time.Now(),
		}}, 0, func(_ bool, err error) { published <- err })
	}
	<-c.full
	b.StopTimer()
	report(b, n)
	for range b.N {
		if err := <-published; err != nil {
			b.Fatal(err)
		}
	}
	if seen := c.seen.Load(); seen != int64(n) {
		b.Errorf("%d POSTs, want %d", seen, n)
	}
}

func report(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(0, "ns/op")
}

// loopback lets callbacks go to this machine.
func loopback() *egress.Policy {
	return &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
}

var discard = slog.New(slog.DiscardHandler)
