package webhooks

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
)

type codeView struct {
	head

	Curl, CLI, MCP string
	Snippets       []snippet // with the secret
	Public         []snippet // with a public key
}

func showCode(p *console.Page) error {
	h, err := read(p, "code")
	if err != nil {
		return err
	}
	v := codeView{head: h}
	v.Snippets, v.Public = h.Webhook.snippetsFor()
	if v.Curl, err = h.Webhook.curl(p.Base()); err != nil {
		return err
	}
	if v.MCP, err = h.Webhook.mcp(); err != nil {
		return err
	}
	v.CLI = h.Webhook.command()
	return p.Show("code.html", h.title("code"), v)
}

// settings are a webhook's members that somebody sets.
type settings struct {
	URL                  string    `json:"url,omitzero"`
	Events               []string  `json:"events"`
	Description          string    `json:"description,omitzero"`
	RetryScheduleSeconds []float64 `json:"retryScheduleSeconds"`
	TimeoutSeconds       float64   `json:"timeoutSeconds"`
	MaxInFlight          int       `json:"maxInFlight"`
	RatePerSecond        *float64  `json:"ratePerSecond,omitzero"`
	Signing              string    `json:"signing,omitzero"`
	Ordering             string    `json:"ordering,omitzero"`
	OrderingMaxWait      *float64  `json:"orderingMaxWaitSeconds,omitzero"`
	Delivery             string    `json:"delivery,omitzero"`
	// Values of headers are never shown: their names stand here with a value to be put in.
	Headers map[string]string `json:"headers,omitzero"`
	// So are the values of its authentication.
	Auth map[string]string `json:"auth,omitzero"`
}

func (w *webhook) settings() settings {
	s := settings{w.URL, w.Events, w.Description, w.RetryScheduleSeconds, w.TimeoutSeconds, w.MaxInFlight, w.RatePerSecond, w.ownSigning(), "", nil, "", nil, nil}
	if w.pulls() {
		s.Delivery = w.Delivery
	}
	if w.inOrder() {
		s.Ordering, s.OrderingMaxWait = w.Ordering, &w.OrderingMaxWait
	}
	if len(w.HeaderNames) > 0 {
		s.Headers = map[string]string{}
	}
	for _, name := range w.HeaderNames {
		s.Headers[name] = "…"
	}
	if w.AuthType != nil {
		s.Auth = map[string]string{"type": *w.AuthType}
		for name := range authFields(receiverauth.Type(*w.AuthType)) {
			s.Auth[name] = "…"
		}
	}
	return s
}

func (w *webhook) curl(base string) (string, error) {
	body, err := json.Marshal(w.settings(), json.Deterministic(true), jsontext.WithIndent("  "))
	return "curl -X POST -H \"Authorization: Bearer $WAYBILL_KEY\" -H 'Content-Type: application/json' \\\n  " +
		quoted(base+"/v1/webhooks") + " -d " + quoted(string(body)), err
}

// mcp leaves authentication out: the tool takes none, so that it does not pass through a model.
func (w *webhook) mcp() (string, error) {
	arguments := w.settings()
	arguments.Auth = nil
	message := struct {
		Method string `json:"method"`
		Params any    `json:"params"`
	}{"tools/call", struct {
		Name      string   `json:"name"`
		Arguments settings `json:"arguments"`
	}{"register_webhook", arguments}}
	text, err := json.Marshal(message, json.Deterministic(true), jsontext.WithIndent("  "))
	return string(text), err
}

// command is the webhook as the command line makes it.
func (w *webhook) command() string {
	waits := make([]string, len(w.RetryScheduleSeconds))
	for i, seconds := range w.RetryScheduleSeconds {
		waits[i] = plain(seconds)
	}
	parts := []string{
		w.create(), "--events " + strings.Join(w.Events, ","),
		"--retry-schedule " + quoted(strings.Join(waits, ",")), "--timeout " + plain(w.TimeoutSeconds) + "s", "--max-in-flight " + plain(float64(w.MaxInFlight)),
	}
	if w.RatePerSecond != nil {
		parts = append(parts, "--rate-per-second "+plain(*w.RatePerSecond))
	}
	if signing := w.ownSigning(); signing != "" {
		parts = append(parts, "--signing "+signing)
	}
	if w.inOrder() {
		parts = append(parts, "--ordering "+w.Ordering, "--ordering-max-wait "+plain(w.OrderingMaxWait)+"s")
	}
	if w.Description != "" {
		parts = append(parts, "--description "+quoted(w.Description))
	}
	for _, name := range w.HeaderNames {
		parts = append(parts, "--header "+quoted(name+"=…"))
	}
	if w.AuthType != nil {
		parts = append(parts, "--auth-file FILE")
	}
	return strings.Join(parts, " \\\n  ")
}

// create is the beginning of the command that makes the webhook.
func (w *webhook) create() string {
	text := "waybill webhooks create"
	if w.URL != "" {
		text += " " + quoted(w.URL)
	}
	if w.pulls() {
		text += " --delivery " + w.Delivery
	}
	return text
}

// pulls says whether the receiver reads the feed, and nothing is sent to it.
func (w *webhook) pulls() bool { return w.Delivery == string(domain.DeliveryPull) }

func (w *webhook) inOrder() bool { return w.Ordering == string(domain.OrderingShipment) }

// quoted quotes text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
