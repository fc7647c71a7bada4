// Package trial tries a receiver as deliveries do: by the same rules for its address, over the same
// connections, with the same signature.
package trial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"waybill.dev/cmd/internal/sample"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/units"
)

const (
	groupReach   = "Reach"
	groupAnswers = "Answers"
)

// Options say what is tried.
type Options struct {
	URL string
	// Secret signs the test event; Known says that the receiver has it. One that is made for the trial
	// is not known to it.
	Secret signature.Key
	Known  bool

	Policy  egress.Policy
	RootCAs *x509.CertPool // nil: the system's
	Timeout time.Duration  // of a request
	Version string
}

// trial is one run.
type trial struct {
	Options

	client *egress.Client
	found  []finding.Finding
	now    time.Time
}

// Run tries the receiver. It sends at most three requests.
func Run(ctx context.Context, o Options) []finding.Finding {
	t := &trial{Options: o, client: o.Policy.NewClient(egress.Options{RootCAs: o.RootCAs}), now: time.Now()}
	defer t.client.Close()
	if t.reach(ctx) {
		t.answers(ctx)
	}
	return t.found
}

func (t *trial) note(group, name string, f finding.Finding) {
	f.Group, f.Name = group, name
	t.found = append(t.found, f)
}

// reach resolves the name and connects.
func (t *trial) reach(ctx context.Context) bool {
	if err := t.Policy.CheckURL(t.URL); err != nil {
		t.note(groupReach, "url", t.refusal(err.Error()))
		return false
	}
	t.note(groupReach, "url", finding.Good("a webhook may have it", "Its form is right, and it names no address that is refused."))
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	probe, err := t.client.Probe(ctx, t.URL)
	if len(probe.Addresses) > 0 {
		t.note(groupReach, "address", finding.Good(addresses(probe.Addresses), "All of its addresses may be connected to."))
	}
	if err != nil {
		t.note(groupReach, failed(err), t.unreachable(err))
		return false
	}
	t.note(groupReach, "connection", finding.Good(fmt.Sprintf("to %s in %s", probe.Remote, units.Duration(probe.Phases.DNS+probe.Phases.Connect)), "Something listens there."))
	if probe.TLS == nil {
		t.note(groupReach, "tls", finding.Warn("none: the URL is http", "Whoever is between can read and change callbacks; the signature shows changes only.", "use https"))
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
func (t *trial) refusal(why string) finding.Finding {
	do := "correct the URL"
	if strings.Contains(why, settings.EgressAllow) {
		do = "use a public address, or allow its network with " + settings.EgressAllow
	}
	if strings.Contains(why, settings.EgressHTTP) {
		do = "use https, or set " + settings.EgressHTTP + "=true"
	}
	return finding.Bad("the URL "+strings.TrimPrefix(why, "the URL "), "No webhook can be registered with it, and nothing would be sent.", do)
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

func (t *trial) unreachable(err *egress.Error) finding.Finding {
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
	return finding.Bad(err.Text()+" ("+text+")", "Callbacks are tried again by the schedule, and none arrives.", do)
}

// tls judges the connection's certificate. That it is trusted is known by now.
func (t *trial) tls(state *tls.ConnectionState, handshake time.Duration) {
	leaf := state.PeerCertificates[0]
	t.note(groupReach, "tls", finding.Good(fmt.Sprintf("%s, %s, handshake in %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite), units.Duration(handshake)), "The connection is encrypted."))
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
	t.note(groupReach, "chain", finding.Good(strings.Join(names, " ← "), "The authority is trusted."))
	left := leaf.NotAfter.Sub(t.now)
	text := fmt.Sprintf("%d days left, until %s", int(left.Hours()/24), leaf.NotAfter.UTC().Format(time.DateOnly))
	if left < domain.ExpirySoon {
		t.note(groupReach, "certificate", finding.Warn(text, "When it has ended, no callback arrives.", "renew the receiver's certificate"))
		return
	}
	t.note(groupReach, "certificate", finding.Good(text, "Nothing is to be done yet."))
}

// answers sends the test event: signed rightly, signed by somebody else, and, if that can show
// anything, with an old time.
func (t *trial) answers(ctx context.Context) {
	right, ok := t.send(ctx, t.Secret, t.now)
	t.signed(right)
	if !ok {
		return
	}
	wrong, ok := t.send(ctx, stranger(), t.now)
	if ok {
		t.note(groupAnswers, "wrong signature", t.unverified(wrong))
	}
	if ok && t.Known && good(right) && !good(wrong) {
		if old, ok := t.send(ctx, t.Secret, t.now.Add(-time.Hour)); ok {
			t.note(groupAnswers, "old time", replayed(old))
		}
	}
}

func good(r egress.Response) bool { return r.Status >= 200 && r.Status < 300 }

// stranger is a secret that the receiver can't know.
func stranger() signature.Key {
	key, err := signature.ParseSecret(domain.NewSecret().Reveal())
	if err != nil {
		panic(err) // it is one of ours
	}
	return key
}

// send posts the test event and reports whether there was an answer.
func (t *trial) send(ctx context.Context, secret signature.Key, at time.Time) (egress.Response, bool) {
	id := "evt_check_" + hex.EncodeToString(domain.NewSecretBytes(8))
	body := sample.Event(id, domain.ShipmentCreated, t.now, []byte(`{"test":true,"shipmentId":"shp_check"}`))
	response := t.client.Post(ctx, &egress.Request{
		URL: t.URL, Body: body, Timeout: t.Timeout,
		Header: egress.Callback{
			UserAgent: "Waybill/" + t.Version, ID: id, At: at, Signature: signature.NewSigner(secret).Sign(id, at, body),
			Delivery: "dlv_check", Attempt: 1,
		}.AppendTo(nil),
	})
	return response, response.Status > 0
}

func (t *trial) signed(r egress.Response) {
	const name = "test event"
	p := r.Phases
	spent := p.DNS + p.Connect + p.TLS + p.FirstByte + p.Body
	text := fmt.Sprintf("answered %d in %s", r.Status, units.Duration(spent))
	switch {
	case r.Status == 0:
		t.note(groupAnswers, name, finding.Bad(r.Err.Text()+" after "+units.Duration(spent), "Each attempt ends so, and is tried again.", "look at the receiver's log; it must answer within the webhook's timeoutSeconds"))
		return
	case good(r) && !t.Known:
		t.note(groupAnswers, name, finding.Warn(text+" to a signature that it can't know", "It does not verify signatures: anybody can send it events.", "verify each callback, see docs/receivers.md"))
	case good(r):
		t.note(groupAnswers, name, finding.Good(text, "The event counts as delivered."))
	case r.Status >= 300 && r.Status < 400:
		t.note(groupAnswers, name, finding.Bad(text+", a redirect"+location(r.Header), "Redirects are not followed: the delivery fails.", "register the URL that it leads to"))
	case r.Status == http.StatusGone:
		t.note(groupAnswers, name, finding.Bad(text, "410 makes a webhook inactive at once.", "correct the URL, or what the receiver answers"))
	case refuses(r.Status) && !t.Known:
		t.note(groupAnswers, name, finding.Good(text+": refused, as it can't know this secret", "It checks who calls. Give the webhook's secret with --secret to see it accept."))
	case refuses(r.Status):
		t.note(groupAnswers, name, finding.Bad(text, "It refuses callbacks that are signed with this secret.", "give it the webhook's secret, and compare: waybill signature verify"))
	default:
		t.note(groupAnswers, name, finding.Bad(text, "The delivery fails and is tried again by the schedule.", "look at the receiver's log: it must answer 2xx"))
	}
	if spent > t.Timeout/2 {
		t.note(groupAnswers, "time", finding.Warn(units.Duration(spent)+" of "+units.Duration(t.Timeout), "A little more load, and attempts run into the timeout.", "answer first and work afterwards"))
	} else {
		t.note(groupAnswers, "time", finding.Good(fmt.Sprintf("%s to the first byte, %s in all", units.Duration(p.FirstByte), units.Duration(spent)), "It answers in good time."))
	}
}

func refuses(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
}

// location is where a redirect leads, without what may be secret in it.
func location(h http.Header) string {
	at, _, _ := strings.Cut(h.Get("Location"), "?")
	if at == "" {
		return ""
	}
	return " to " + at
}

func (t *trial) unverified(r egress.Response) finding.Finding {
	text := fmt.Sprintf("answered %d", r.Status)
	switch {
	case good(r):
		return finding.Warn(text, "It does not verify signatures: anybody can send it events.", "verify each callback, see docs/receivers.md")
	case refuses(r.Status):
		return finding.Good(text, "It refuses what is not signed with its secret.")
	case r.Status >= 500:
		return finding.Warn(text, "It fails on a wrong signature; it should answer 401.", "answer 401 to a signature that does not verify")
	}
	return finding.Good(text, "It does not accept it; 401 would say why.")
}

func replayed(r egress.Response) finding.Finding {
	text := fmt.Sprintf("answered %d to a callback of an hour ago", r.Status)
	if good(r) {
		return finding.Warn(text, "It does not check webhook-timestamp: whoever has seen a callback can send it again.", "refuse what is more than five minutes old")
	}
	return finding.Good(text, "It refuses callbacks that are sent again later.")
}
