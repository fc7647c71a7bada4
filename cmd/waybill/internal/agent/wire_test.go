package agent_test

import (
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

// wire passes bytes on between whoever connects to it and an address, until it is cut. Then nothing passes, and
// nobody is told: connections stay open, as when a cable is pulled.
type wire struct {
	net.Listener

	mu    sync.Mutex
	whole chan struct{} // closed while bytes pass
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: listener, whole: make(chan struct{})}
	close(w.whole)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			onto, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			w.keep(from, onto)
			all.Go(func() { w.pass(from, onto) })
			all.Go(func() { w.pass(onto, from) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.heal()
		w.mu.Lock()
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.mu.Unlock()
		all.Wait()
	})
	return w
}

func (w *wire) keep(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
}

func (w *wire) passing() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
	default:
		close(w.whole)
	}
}

// pass copies. An end passes through a wire that is whole, as bytes do.
func (w *wire) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-w.passing()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// An agent whose network is cut without a word is noticed within 25 s. Until then, requests to it wait, and
// those of another agent go on; afterwards none goes to it. When the network is back, so is the agent.
func TestCutNetwork(t *testing.T) {
	eachDatabase(t, func(t *testing.T, r *rig) {
		g := r.gateway("one")
		at, err := url.Parse(g.url)
		if err != nil {
			t.Fatal(err)
		}
		w := newWire(t, at.Host)
		id, token := r.dig()
		shop := r.deploy("shop", "main")
		g.agent(token, r.service.URL)
		behind := *g
		behind.url = "http://" + w.Addr().String()
		behind.agent(token, r.service.URL)
		r.connections(id, 4)
		g.served(shop)

		w.cut()
		began := time.Now()
		within(t, 40*time.Second, "the dead connections are gone", func() bool {
			got, err := r.tunnels.GetTunnel(t.Context(), account, id)
			return err == nil && len(got.Connections) == 2
		})
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("a dead agent is seen only after %s", took)
		} else {
			t.Logf("a dead agent is seen after %s", took)
		}
		for range 100 {
			if got := g.ask(http.MethodGet, shop, "/orders/1", ""); got.status != http.StatusTeapot {
				t.Fatalf("with a dead agent beside: %d %s", got.status, got.body)
			}
		}
		w.heal()
		within(t, 60*time.Second, "the agent is back", func() bool {
			got, err := r.tunnels.GetTunnel(t.Context(), account, id)
			return err == nil && len(got.Connections) == 4
		})
	})
}
