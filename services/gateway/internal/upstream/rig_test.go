package upstream_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver starts a server, and counts the connections to it.
func receiver(tb testing.TB, h http.HandlerFunc) (url string, connections *atomic.Int64) {
	tb.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	tb.Cleanup(s.Close)
	return s.URL, connections
}

// resolver returns one that asks a fresh fake name server and nobody else.
func resolver(tb testing.TB) *net.Resolver {
	tb.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { serveNames(packets) })
	tb.Cleanup(func() {
		_ = packets.Close()
		running.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", packets.LocalAddr().String())
	}}
}

// addressOf is what the fake name server knows.
func addressOf(name string) (netip.Addr, bool) {
	switch strings.ToLower(strings.TrimSuffix(name, ".")) {
	case "receiver", "a127.attacker.example":
		return netip.MustParseAddr("127.0.0.1"), true
	case "azure.attacker.example":
		return netip.MustParseAddr("168.63.129.16"), true
	}
	return netip.Addr{}, false
}

func serveNames(packets net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := packets.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		question := query.Questions[0]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true},
			Questions: query.Questions,
		}
		if addr, known := addressOf(question.Name.String()); !known {
			reply.RCode = dnsmessage.RCodeNameError
		} else if question.Type == dnsmessage.TypeA {
			reply.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: addr.As4()},
			}}
		}
		if packed, err := reply.Pack(); err == nil {
			_, _ = packets.WriteTo(packed, from)
		}
	}
}
