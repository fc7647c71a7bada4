package gateway_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/traffic"
)

var counted = flag.Int("counted", 6_000, "how many requests TestCounters sends")

// Counters are equal to what clients have counted, to the last unit: over connections of their
// own, at full speed, for several deployments, consumers and statuses.
func TestCounters(t *testing.T) {
	t.Parallel()
	projects := []string{"shop", "desk", "mail"}
	var recorder *gateway.Traffic
	r := newRig(t, func(o *gateway.Options) {
		recorder = gateway.NewTraffic(gateway.TrafficOptions{Store: traffic.New(o.Store), Rate: 200, Logger: slog.New(slog.DiscardHandler)})
		o.Traffic = recorder
	})
	files := gatewaytest.Files{"a.oas.json": strings.Replace(keyed, `{"/":`, `{"/open":{"get":{"operationId":"open","x-gateway-route":{
		"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"open"}}}}},"/":`, 1), "policies.json": keyPolicies}
	names, keys := make([]string, len(projects)), make([]string, len(projects))
	for i, project := range projects {
		d := deploymentstest.Deployment{Account: "default", Project: project, Branch: "main", Format: "zip", Archive: zipped(t, files)}
		d.Activate(t, r.db)
		names[i], keys[i] = d.Name(), r.keysOf([2]string{"default", project + "-production"})[0]
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx) }()
	t.Cleanup(stop)
	r.run()
	r.bus.Announce(bus.SubjectGateway, nil)
	gatewaytest.Within(t, time.Minute, "they are known", func() bool {
		return r.ask(http.MethodHead, names[0]+".gateway.localhost", "/open").Code == http.StatusOK
	})
	served := httptest.NewServer(r.handler)
	t.Cleanup(served.Close)

	want := map[string]int64{names[0] + " anonymous 200": 0}
	kinds := []struct {
		path, key, count string
	}{{"/open", "", "anonymous 200"}, {"/open", "", "anonymous 200"}, {"/", "key", "bakery 200"}, {"/", "", "anonymous 401"}, {"/missing", "", "anonymous 404"}}
	const clients, batch = 8, 100
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			own := map[string]int64{}
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				for what, n := range own {
					want[what] += n
				}
			}()
			connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", served.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			answers := bufio.NewReader(connection)
			for sent := 0; sent < *counted/clients; sent += batch {
				var requests strings.Builder
				var expected []string
				for i := range min(batch, *counted/clients-sent) {
					kind, of := kinds[(sent+i)%len(kinds)], (client+sent+i/len(kinds))%len(names)
					header := ""
					if kind.key != "" {
						header = "Authorization: Bearer " + keys[of] + "\r\n"
					}
					fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: %s.gateway.localhost\r\n%s\r\n", kind.path, names[of], header)
					expected = append(expected, names[of]+" "+kind.count)
				}
				if _, err := io.WriteString(connection, requests.String()); err != nil {
					t.Error(err)
					return
				}
				for _, what := range expected {
					answer, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
					if !strings.HasSuffix(what, strconv.Itoa(answer.StatusCode)) {
						t.Errorf("%d, want %s", answer.StatusCode, what)
					}
					own[what]++
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	stop() // a recorder writes what it has before it ends
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests in %s: %.0f a second", *counted, took.Round(time.Millisecond), float64(*counted)/took.Seconds())

	asked := r.counts(names, traffic.Day1)
	for _, step := range []traffic.Step{traffic.Minute1, traffic.Hour1} {
		if diff := cmp.Diff(asked, r.counts(names, step)); diff != "" {
			t.Errorf("steps of %d minutes (-days +these):\n%s", step, diff)
		}
	}
	// What the test has asked for until the first was known is not from a client.
	delete(asked, names[0]+" anonymous 503")
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	asked[names[0]+" anonymous 200"]-- // the last of these
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("counts (-clients +stored):\n%s", diff)
	}
}

// counts returns what is stored of deployments in steps, by deployment, consumer and status.
func (r *rig) counts(names []string, step traffic.Step) map[string]int64 {
	r.t.Helper()
	counts := map[string]int64{}
	for _, name := range names {
		list, err := traffic.New(r.db).CallCounts(context.WithoutCancel(r.t.Context()), name, step, time.Now().Add(-2*time.Hour), nil, 1000)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, one := range list {
			counts[fmt.Sprint(name, " ", one.Consumer, " ", one.Status)] += one.Calls.Calls
		}
	}
	return counts
}
