// Package trial tries a receiver as deliveries do: by the same rules for its address, over the same
// connections, with the same signature.
package trial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"waybill.dev/cmd/internal/sample"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/units"
)

const (
	groupReach   = "Reach"
	groupAnswers = "Answers"
)

// Options of a trial.
type Options struct {
	URL string
	// Secret signs the test event; Known says that the receiver has it. The receiver does not know a
	// secret that is made for the trial.
	Secret signature.Key
	Known  bool

	Policy  egress.Policy
	RootCAs *x509.CertPool // nil: the system's
	Timeout time.Duration  // of each request
	Version string
}

// trial is one run.
type trial struct {
	Options

	client *egress.Client
	found  []judge.Finding
	now    time.Time
}

// Run tries the receiver. It sends at most three requests.
func Run(ctx context.Context, o Options) []judge.Finding {
	t := &trial{Options: o, client: o.Policy.NewClient(egress.Options{RootCAs: o.RootCAs}), now: time.Now()}
	defer t.client.Close()
	if t.reach(ctx) {
		t.answers(ctx)
	}
	return t.found
}

func (t *trial) note(group, name string, f judge.Finding) {
	f.Group, f.Name = group, name
	t.found = append(t.found, f)
}

func (t *trial) add(group string, found ...judge.Finding) {
	for _, f := range found {
		t.note(group, f.Name, f)
	}
}

// reach resolves the name and connects.
func (t *trial) reach(ctx context.Context) bool {
	if err := t.Policy.CheckURL(t.URL); err != nil {
		t.note(groupReach, "url", t.refusal(err.Error()))
		return false
	}
	t.note(groupReach, "url", judge.Good("a webhook may have it", "Its form is right, and it names no address that is refused."))
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	probe, err := t.client.Probe(ctx, t.URL)
	if len(probe.Addresses) > 0 {
		t.note(groupReach, "address", judge.Good(addresses(probe.Addresses), "All of its addresses may be connected to."))
	}
	if err != nil {
		t.note(groupReach, failed(err), t.unreachable(err))
		return false
	}
	t.note(groupReach, "connection", judge.Good(fmt.Sprintf("to %s in %s", probe.Remote, units.Duration(probe.Phases.DNS+probe.Phases.Connect)), "Something listens there."))
	if probe.TLS == nil {
		t.add(groupReach, judge.NoTLS())
		return true
	}
	t.tls(probe.TLS, probe.Phases.TLS)
	return true
}

func addresses(list []netip.Addr) string {
	var texts []string
	for _, addr := range list[:min(4, len(list))] {
		texts = append(texts, addr.String())
	}
	return strings.Join(texts, ", ")
}

// refusal explains a URL that no webhook may have.
func (t *trial) refusal(why string) judge.Finding {
	do := "correct the URL"
	if strings.Contains(why, settings.EgressAllow) {
		do = "use a public address, or allow its network with " + settings.EgressAllow
	}
	if strings.Contains(why, settings.EgressHTTP) {
		do = "use https, or set " + settings.EgressHTTP + "=true"
	}
	return judge.Bad("the URL "+strings.TrimPrefix(why, "the URL "), "No webhook can be registered with it, and nothing would be sent.", do)
}

// failed names the step that failed.
func failed(err *egress.Error) string {
	switch err.Code {
	case egress.CodeDNS:
		return "dns"
	case egress.CodeTLS:
		return "tls"
	case egress.CodeAddress:
		return "address"
	}
	return "connection"
}

func (t *trial) unreachable(err *egress.Error) judge.Finding {
	text := err.Reason()
	if _, detail, ok := strings.Cut(text, ": "); ok {
		text = detail
	}
	do := map[string]string{
		"dns":        "correct the name, or the name servers of the dispatchers",
		"tls":        "renew or correct the receiver's certificate and chain",
		"address":    "use a public address, or allow its network with " + settings.EgressAllow,
		"connection": "start the receiver, and open its port to the dispatchers",
	}[failed(err)]
	return judge.Bad(err.Text()+" ("+text+")", "Callbacks are tried again by the schedule, and none arrives.", do)
}

// tls judges the connection's certificate. It has already been found to be trusted.
func (t *trial) tls(state *tls.ConnectionState, handshake time.Duration) {
	leaf := state.PeerCertificates[0]
	t.note(groupReach, "tls", judge.Good(fmt.Sprintf("%s, %s, handshake in %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite), units.Duration(handshake)), "The connection is encrypted."))
	chain := state.PeerCertificates
	if len(state.VerifiedChains) > 0 {
		chain = state.VerifiedChains[0]
	}
	var names []string
	for _, certificate := range chain {
		name := certificate.Subject.CommonName
		if name == "" && len(certificate.DNSNames) > 0 {
			name = certificate.DNSNames[0]
		}
		if name == "" {
			name = strings.Join(certificate.Subject.Organization, " ")
		}
		names = append(names, name)
	}
	t.note(groupReach, "chain", judge.Good(strings.Join(names, " ← "), "The authority is trusted."))
	left := leaf.NotAfter.Sub(t.now)
	text := fmt.Sprintf("%d days left, until %s", int(left.Hours()/24), leaf.NotAfter.UTC().Format(time.DateOnly))
	if left < domain.ExpirySoon {
		t.note(groupReach, "certificate", judge.Warn(text, "When it has ended, no callback arrives.", "renew the receiver's certificate"))
		return
	}
	t.note(groupReach, "certificate", judge.Good(text, "Nothing is to be done yet."))
}

// answers sends the test event: with a correct signature, with that of another secret, and, if that
// can show anything, with an old time.
func (t *trial) answers(ctx context.Context) {
	right, ok := t.send(ctx, t.Secret, t.now)
	t.add(groupAnswers, judge.Signed(right, t.Known, t.Timeout)...)
	if !ok {
		return
	}
	wrong, ok := t.send(ctx, stranger(), t.now)
	if ok {
		t.add(groupAnswers, judge.WrongSecret(wrong))
	}
	if t.Known && judge.Telling(right, wrong) {
		if old, ok := t.send(ctx, t.Secret, t.now.Add(-domain.ForgedAge)); ok {
			t.add(groupAnswers, judge.OldTime(old))
		}
	}
}

// stranger returns a secret that the receiver can't know.
func stranger() signature.Key {
	key, err := signature.ParseSecret(domain.NewSecret().Reveal())
	if err != nil {
		panic(err) // can't fail: we have made it
	}
	return key
}

// send posts the test event and reports whether there was an answer.
func (t *trial) send(ctx context.Context, secret signature.Key, at time.Time) (judge.Answer, bool) {
	id := "evt_check_" + hex.EncodeToString(domain.NewSecretBytes(8))
	body := sample.Event(id, domain.ShipmentCreated, t.now, []byte(`{"test":true,"shipmentId":"shp_check"}`))
	response := t.client.Post(ctx, &egress.Request{
		URL: t.URL, Body: body, Timeout: t.Timeout,
		Header: egress.Callback{
			UserAgent: "Waybill/" + t.Version, ID: id, At: at, Signature: signature.NewSigner(secret).Sign(id, at, body),
			Delivery: "dlv_check", Attempt: 1,
		}.AppendTo(nil),
	})
	p := response.Phases
	answer := judge.Answer{Status: response.Status, Took: p.DNS + p.Connect + p.TLS + p.FirstByte + p.Body, FirstByte: p.FirstByte, Location: response.Header.Get("Location")}
	if response.Err != nil {
		answer.Error = response.Err.Text()
	}
	return answer, response.Status > 0
}
