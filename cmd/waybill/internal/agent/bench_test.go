package agent_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/store/storetest"
)

// BenchmarkTunnel measures requests through a tunnel, over the gateway's own connection and over
// another gateway's, beside a route to the same service without a tunnel. All of it runs on this
// machine: client, gateways, agent, service and bus.
func BenchmarkTunnel(b *testing.B) {
	r := newRig(b, storetest.SQLite()) // requests don't touch the database
	near, far := r.gateway("near"), r.gateway("far")
	id, token := r.dig()
	shop := r.deploy("shop", "main")
	near.agent(token, r.service.URL)
	r.connections(id, 2)
	near.served(shop)
	far.served(shop)
	for _, size := range []int{1 << 10, 1 << 20} {
		for _, parallel := range []int{1, 256} {
			for _, way := range []struct {
				name string
				g    *gatewayOf
				path string
			}{{"plain", near, "/plain/1"}, {"own", near, "/orders/1"}, {"bus", far, "/orders/1"}} {
				b.Run(fmt.Sprintf("%s/%dKB/%d", way.name, size>>10, parallel), func(b *testing.B) {
					measure(b, way.g, shop, way.path, size, parallel)
				})
			}
		}
	}
}

func measure(b *testing.B, g *gatewayOf, host, path string, size, parallel int) {
	b.Helper()
	body := bytes.Repeat([]byte("x"), size)
	took := make([]time.Duration, b.N)
	next := make(chan int)
	var group sync.WaitGroup
	b.SetBytes(int64(2 * size))
	b.ResetTimer()
	for range parallel {
		group.Go(func() {
			for n := range next {
				began := time.Now()
				got, err := g.try(http.MethodPost, host, path, bytes.NewReader(body))
				if err != nil || got.status != http.StatusTeapot || len(got.body) != size {
					b.Errorf("%d, %d bytes, %v", got.status, len(got.body), err)
				}
				took[n] = time.Since(began)
			}
		})
	}
	for n := range b.N {
		next <- n
	}
	close(next)
	group.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
}
