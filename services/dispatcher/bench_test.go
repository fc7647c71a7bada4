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

// BenchmarkOrder measures deliveries of 10,000 shipments, in turn, to the webhooks of 1, 100 and 1,000 accounts, with and without
// order: go test -run - -bench 'Order$' -benchtime 30000x
func BenchmarkOrder(b *testing.B) { eachOrdering(b, inOrderOf) }

// BenchmarkOrderLatency measures one event after the other, each to another account, from its publication
// until it arrives: of 1, 100 and 1,000 accounts with a webhook each, with and without order. What
// the dispatcher costs while nothing happens is told besides: go test -run - -bench OrderLatency -benchtime 1000x
func BenchmarkOrderLatency(b *testing.B) { eachOrdering(b, oneByOne) }

func eachOrdering(b *testing.B, run func(b *testing.B, o *orderBench)) {
	b.Helper()
	for _, accounts := range []int{1, 100, 1000} {
		for _, ordering := range domain.Orderings() {
			b.Run(fmt.Sprintf("accounts=%d/%s", accounts, ordering), func(b *testing.B) {
				url, err := cluster.CreateDatabase(b.Context(), "o"+strconv.FormatInt(time.Now().UnixNano(), 36))
				if err != nil {
					b.Fatal(err)
				}
				run(b, newOrderBench(b, url, accounts, ordering))
			})
		}
	}
}

// orderBench has accounts with a webhook each, at one receiver.
type orderBench struct {
	*bench
	*counter
	accounts int
	ordering domain.Ordering
	sent     int64
}

// newOrderBench returns a bench whose accounts have had an event each.
func newOrderBench(b *testing.B, url string, accounts int, ordering domain.Ordering) *orderBench {
	b.Helper()
	o := &orderBench{bench: newBench(b, url), counter: newCounter(b), accounts: accounts, ordering: ordering}
	for i := range accounts {
		if _, _, err := o.store.CreateWebhook(b.Context(), domain.Webhook{
			Account: "a" + strconv.Itoa(i), URL: o.counter.url, Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(),
			Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Ordering: ordering, OrderingMaxWait: time.Hour,
		}, nil); err != nil {
			b.Fatal(err)
		}
	}
	o.dispatch()
	o.await(b, o.publish(accounts))
	return o
}

// publish publishes the next n events, of each account in turn. Each answer of the bus comes from the channel.
func (o *orderBench) publish(n int) <-chan error {
	answers := make(chan error, n)
	o.want.Add(int64(n))
	for range n {
		account, round := o.sent%int64(o.accounts), o.sent/int64(o.accounts)
		a := bus.AcceptedEvent{Event: domain.Event{
			Account: "a" + strconv.FormatInt(account, 10), ID: "evt_" + strconv.FormatInt(o.sent, 10), Type: domain.ShipmentCreated, ReceivedAt: time.Now(),
			Payload: []byte(strings.Replace(string(payload), "shp_1", "shp_"+strconv.FormatInt(o.sent%10_000, 10), 1)),
		}}
		if o.ordering == domain.OrderingShipment {
			a.Place = round + 1
		}
		o.sent++
		o.bus.PublishEvent(a, 0, func(_ bool, err error) { answers <- err })
	}
	return answers
}

// await waits until all that was published has arrived.
func (o *orderBench) await(b *testing.B, answers <-chan error) {
	b.Helper()
	<-o.full
	for range cap(answers) {
		if err := <-answers; err != nil {
			b.Fatal(err)
		}
	}
}

func oneByOne(b *testing.B, o *orderBench) {
	idle := processTime(b)
	<-time.After(2 * time.Second)
	idle = processTime(b) - idle
	var all []time.Duration
	b.ResetTimer()
	for range b.N {
		started := time.Now()
		answers := o.publish(1)
		<-o.full
		all = append(all, time.Since(started))
		if err := <-answers; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(idle.Milliseconds())/2, "idle-ms/s")
	b.ReportMetric(0, "ns/op")
}

func inOrderOf(b *testing.B, o *orderBench) {
	used := processTime(b)
	b.ResetTimer()
	answers := o.publish(b.N)
	<-o.full
	b.StopTimer()
	report(b, b.N)
	b.ReportMetric(float64((processTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/delivery")
	for range b.N {
		if err := <-answers; err != nil {
			b.Fatal(err)
		}
	}
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
		bench.bus.PublishEvent(bus.AcceptedEvent{Event: domain.Event{
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
