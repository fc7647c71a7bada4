package load_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/lab/internal/load"
)

// A caller counts what it gets through the bare proxy, and apart from that what is no 200.
func TestCallerThroughProxy(t *testing.T) {
	t.Parallel()
	back, near, broken, caller := start(t, load.KindBackEnd), start(t, load.KindProxy), start(t, load.KindProxy), start(t, load.KindCaller)
	behind, err := back.Open(1024)
	if err != nil {
		t.Fatal(err)
	}
	good, err := near.Proxy(behind.Address, "", "")
	if err != nil {
		t.Fatal(err)
	}
	bad, err := broken.Proxy("127.0.0.1:1", "", "") // where nobody listens
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		address, path string
		refused       string
	}{
		{good.Address, "/any", ""},
		{good.Address, load.StaticPath, ""},
		{bad.Address, load.StaticPath, ""},
		{bad.Address, "/any", "502"},
	} {
		p, err := caller.Ask(load.Ask{Address: row.address, Path: row.path, Connections: 3, For: 100 * time.Millisecond})
		if err != nil || (p.Events > 0) != (row.refused == "") || (p.Refused > 0) != (row.refused != "") || !strings.HasPrefix(p.Fault, row.refused) {
			t.Errorf("%s%s: %+v, %v", row.address, row.path, p, err)
		}
	}
}

// Of a request that is repeated, every answer is compared with the one that is wanted.
func TestRepeatSeesOtherAnswers(t *testing.T) {
	t.Parallel()
	var answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := "as ever"
		if answers.Add(1)%3 == 0 {
			text = "other"
		}
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush() // in chunks
	}))
	t.Cleanup(server.Close)
	r := load.Repeat{Address: server.Listener.Addr().String(), Request: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Connections: 2, For: 100 * time.Millisecond}
	first, err := r.Once(t.Context())
	if err != nil || first != "as ever" {
		t.Fatalf("once: %q, %v", first, err)
	}
	r.Want = first
	p, err := r.Run(t.Context())
	if err != nil || p.Refused == 0 || p.Events < p.Refused || p.Fault != "200: other" || p.Latency.Count != uint64(p.Events) {
		t.Errorf("%+v, %v", p, err)
	}
}

// What is due while as many run as may is left out, and not done later.
func TestPaceLeavesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls []int64
		load.Pace(ctx, 10, 1, func(n int64) {
			calls = append(calls, n)
			<-time.After(250 * time.Millisecond)
		})
		if diff := cmp.Diff([]int64{0, 3, 6, 9}, calls); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
