package load_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

const secret = "whsec_YmVuY2ggYmVuY2ggYmVuY2ggYmVuY2ggYmVuY2g="

// TestMain lets the test program be each of the processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if ok, err := load.Serve(os.Args[1], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		} else if ok {
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func start(t *testing.T, kind string) *load.Child {
	t.Helper()
	child, err := load.Start(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Close(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return child
}

// The receiver counts what a bare loop sends: all of it, once, with right signatures.
func TestLoopIntoReceiver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{load.KindReceiver, load.KindNetReceiver} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			receiver, loop := start(t, kind), start(t, load.KindLoop)
			setup := load.Setup{
				Flocks:  []load.Flock{{Name: "all", From: 3, To: 4, First: 100, Events: 1000, Each: true}},
				Secrets: map[int]string{3: secret},
			}
			received, err := receiver.Receive(&setup)
			if err != nil {
				t.Fatal(err)
			}
			bare := load.Bare{URL: "http://" + received.Address + "/3", Secret: secret, Workers: 4, First: 100, Events: 1000, Size: 1024}
			sent, err := loop.Loop(bare)
			if err != nil || sent.Events != 1000 || sent.Refused != 0 {
				t.Fatalf("the loop tells %+v, %v", sent, err)
			}
			received, err = receiver.Receive(nil)
			if err != nil {
				t.Fatal(err)
			}
			all := received.Tally("all")
			if all.Unique != 1000 || all.Repeated != 0 || all.Latency.Count != 1000 || received.Checked == 0 || received.Faults != 0 {
				t.Errorf("received %+v", received)
			}
			// The same again is repeated, and so is what was before.
			bare.First, bare.Events = 99, 2
			if _, err := loop.Loop(bare); err != nil {
				t.Fatal(err)
			}
			// A wrong key and a wrong endpoint are faults, not deliveries.
			bare.Secret, bare.First, bare.Events = secret[:10]+"A"+secret[11:], 256, 1
			if _, err := loop.Loop(bare); err != nil {
				t.Fatal(err)
			}
			bare.URL = strings.TrimSuffix(bare.URL, "3") + "7"
			if _, err := loop.Loop(bare); err != nil {
				t.Fatal(err)
			}
			if received, err = receiver.Receive(nil); err != nil {
				t.Fatal(err)
			}
			all = received.Tally("all")
			if all.Unique != 1000 || all.Repeated != 3 || received.Faults != 2 {
				t.Errorf("after repeats and faults received %+v", received)
			}
		})
	}
}

// A flock may answer most POSTs with 503; only what was answered 200 counts.
func TestReceiverRefuses(t *testing.T) {
	t.Parallel()
	receiver := start(t, load.KindReceiver)
	received, err := receiver.Receive(&load.Setup{Flocks: []load.Flock{
		{Name: "bad", From: 0, To: 1, First: 0, Events: 100, OneIn: 10},
	}})
	if err != nil {
		t.Fatal(err)
	}
	loop := start(t, load.KindLoop)
	sent, err := loop.Loop(load.Bare{URL: "http://" + received.Address + "/0", Secret: secret, Workers: 1, Events: 100, Size: 200})
	if err != nil || sent.Events != 10 || sent.Refused != 90 || !strings.Contains(sent.Fault, "503") {
		t.Fatalf("the loop tells %+v, %v", sent, err)
	}
	if received, err = receiver.Receive(nil); err != nil {
		t.Fatal(err)
	}
	if bad := received.Tally("bad"); bad.Unique != 10 || bad.Refused != 90 {
		t.Errorf("received %+v", bad)
	}
}

// What is published is events, each once, whatever the form of the answer.
func TestPublishREST(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		way          string
		batch, calls int
		answer       http.HandlerFunc
	}{
		"one by one": {load.WayREST, 0, 50, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"events":[]}`)
		}},
		"batches, with chunked answers": {load.WayBatch, 20, 3, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bodies := make(chan []byte, 100)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("the key is %q", r.Header.Get("Authorization"))
				}
				bodies <- body
				c.answer(w, r)
			}))
			defer server.Close()
			published, err := start(t, load.KindPublisher).Publish(load.Job{
				Way: c.way, Address: server.Listener.Addr().String(), Keys: []string{"secret"}, Type: domain.ShipmentInTransit,
				Size: 1024, First: 1000, Events: 50, Connections: 3, Batch: c.batch,
			})
			if err != nil || published.Events != 50 || published.Refused != 0 || published.Latency.Count != uint64(c.calls) {
				t.Fatalf("published %+v, %v", published, err)
			}
			close(bodies)
			ids := make(map[string]bool)
			for body := range bodies {
				for _, id := range valid(t, body) {
					ids[id] = true
				}
			}
			if len(ids) != 50 || !ids["bench-0000001000"] || !ids["bench-0000001049"] {
				t.Errorf("published %d different ids", len(ids))
			}
		})
	}
}

// valid checks events as the API does and returns their ids.
func valid(t *testing.T, body []byte) []string {
	t.Helper()
	list := []json.RawMessage{body}
	if body[0] == '[' {
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, text := range list {
		if len(text) != 1024 {
			t.Errorf("an event has %d bytes, want 1024: %s", len(text), text)
		}
		e, faults := envelope.Decode(text)
		if faults != nil {
			t.Fatalf("%s: %v", text, faults)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// At a rate, events go out at their times, for as long as it was said.
func TestPublishAtRate(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer server.Close()
	job := load.Job{
		Way: load.WayREST, Address: server.Listener.Addr().String(), Keys: []string{"k"}, Type: domain.ShipmentCreated,
		Size: 300, Events: 30, Rate: 100, Connections: 2,
	}
	published, err := start(t, load.KindPublisher).Publish(job)
	if err != nil || published.Events != 30 || published.Seconds < 0.27 {
		t.Errorf("published %+v, %v; want 30 events in no less than 0.29 s", published, err)
	}
	// The time ends it. A slow machine has published fewer by then.
	job.Events, job.For = 1000, 300*time.Millisecond
	published, err = start(t, load.KindPublisher).Publish(job)
	if err != nil || published.Events < 1 || published.Events > 34 {
		t.Errorf("published %+v, %v; want at most about 30 events", published, err)
	}
}

func TestPublishRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such key", http.StatusUnauthorized)
	}))
	defer server.Close()
	published, err := start(t, load.KindPublisher).Publish(load.Job{
		Way: load.WayREST, Address: server.Listener.Addr().String(), Keys: []string{"k"}, Type: domain.ShipmentCreated,
		Size: 300, Events: 5, Connections: 1,
	})
	if err != nil || published.Events != 0 || published.Refused != 5 || !strings.Contains(published.Fault, "401: no such key") {
		t.Errorf("published %+v, %v", published, err)
	}
}

// What is no callback is a fault, and the connection ends.
func TestReceiverOfNonsense(t *testing.T) {
	t.Parallel()
	receiver := start(t, load.KindReceiver)
	received, err := receiver.Receive(&load.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "POST /x HTTP/1.1\r\n\r\n"} {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", received.Address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadByte(); err == nil {
			t.Errorf("%q is answered", text)
		}
		_ = conn.Close()
	}
	if received, err = receiver.Receive(nil); err != nil || received.Faults != 3 {
		t.Errorf("received %+v, %v; want 3 faults", received, err)
	}
}
