package egress_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

const public = "93.184.216.34"

// zone is what the fake name server of these tests knows; a name's answers are given in
// turn, the last one for ever. ^ before an answer makes it a CNAME. silent gets no answer.
func zone() map[string][][]string {
	always := func(addrs ...string) [][]string { return [][]string{addrs} }
	z := map[string][][]string{
		"127.0.0.1.nip.io":          always("127.0.0.1"),
		"a127.attacker.example":     always("127.0.0.1"),
		"v6mapped.attacker.example": always("::ffff:10.0.0.1"),
		"nat64.attacker.example":    always("64:ff9b::7f00:1"),
		"cname.attacker.example":    always("^inner.attacker.example", "10.0.0.1"),
		"mixed.attacker.example":    always(public, "127.0.0.1"),
		"rebind.attacker.example":   {{public}, {"127.0.0.1"}},
		"azure.attacker.example":    always("168.63.129.16"),
		"silent.attacker.example":   nil,
		"receiver":                  always("127.0.0.1"),
		"dual.attacker.example":     always("127.0.0.1", "127.0.0.2"),
	}
	for _, name := range []string{"hooks.example.com", "xn--bcher-kva.example.com", "a_b.example.com"} {
		z[name] = always(public)
	}
	for _, name := range []string{
		"metadata.google.internal", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"postgres.internal", "printer.local", "router.home.arpa",
	} {
		z[name] = always("10.1.2.3")
	}
	var many []string
	for range 59 {
		many = append(many, public)
	}
	z["many.attacker.example"] = always(append(many, "192.168.0.1")...)
	return z
}

// nameServer answers from a zone over UDP on loopback.
type nameServer struct {
	mu   sync.Mutex
	zone map[string][][]string
}

// resolver returns one that asks a fresh fake name server and nobody else.
func resolver(tb testing.TB) *net.Resolver {
	tb.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &nameServer{zone: zone()}
	var running sync.WaitGroup
	running.Go(func() { s.serve(packets) })
	tb.Cleanup(func() {
		_ = packets.Close()
		running.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", packets.LocalAddr().String())
	}}
}

func (s *nameServer) serve(packets net.PacketConn) {
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
		if reply, ok := s.answer(query); ok {
			if packed, err := reply.Pack(); err == nil {
				_, _ = packets.WriteTo(packed, from)
			}
		}
	}
}

func (s *nameServer) answer(query dnsmessage.Message) (reply dnsmessage.Message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	question := query.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	reply.Header = dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}
	reply.Questions = query.Questions
	turns, known := s.zone[name]
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
		return reply, true
	}
	if turns == nil {
		return reply, false
	}
	// A look-up asks for A and AAAA: its turn ends with the A, which rebinding is about.
	if len(turns) > 1 && question.Type == dnsmessage.TypeA {
		s.zone[name] = turns[1:]
	}
	owner := question.Name
	for _, text := range turns[0] {
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		if alias, is := strings.CutPrefix(text, "^"); is {
			owner = dnsmessage.MustNewName(alias + ".")
			header.Type = dnsmessage.TypeCNAME
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: owner}})
			continue
		}
		addr := netip.MustParseAddr(text)
		switch {
		case addr.Is4() && question.Type == dnsmessage.TypeA:
			header.Type = dnsmessage.TypeA
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
			header.Type = dnsmessage.TypeAAAA
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return reply, true
}
