package webhooks

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

type codeView struct {
	head

	Curl, CLI, MCP string
	Snippets       []snippet
}

func showCode(p *console.Page) error {
	h, err := read(p, "code")
	if err != nil {
		return err
	}
	v := codeView{head: h, Snippets: snippets()}
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
	URL                  string    `json:"url"`
	Events               []string  `json:"events"`
	Description          string    `json:"description,omitzero"`
	RetryScheduleSeconds []float64 `json:"retryScheduleSeconds"`
	TimeoutSeconds       float64   `json:"timeoutSeconds"`
	MaxInFlight          int       `json:"maxInFlight"`
	RatePerSecond        *float64  `json:"ratePerSecond,omitzero"`
	// Values of headers are never shown: their names stand here with a value to be put in.
	Headers map[string]string `json:"headers,omitzero"`
}

func (w *webhook) settings() settings {
	s := settings{w.URL, w.Events, w.Description, w.RetryScheduleSeconds, w.TimeoutSeconds, w.MaxInFlight, w.RatePerSecond, nil}
	if len(w.HeaderNames) > 0 {
		s.Headers = map[string]string{}
	}
	for _, name := range w.HeaderNames {
		s.Headers[name] = "…"
	}
	return s
}

func (w *webhook) curl(base string) (string, error) {
	body, err := json.Marshal(w.settings(), json.Deterministic(true), jsontext.WithIndent("  "))
	return "curl -X POST -H \"Authorization: Bearer $WAYBILL_KEY\" -H 'Content-Type: application/json' \\\n  " +
		quoted(base+"/v1/webhooks") + " -d " + quoted(string(body)), err
}

func (w *webhook) mcp() (string, error) {
	message := struct {
		Method string `json:"method"`
		Params any    `json:"params"`
	}{"tools/call", struct {
		Name      string   `json:"name"`
		Arguments settings `json:"arguments"`
	}{"register_webhook", w.settings()}}
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
		"waybill webhooks create " + quoted(w.URL), "--events " + strings.Join(w.Events, ","),
		"--retry-schedule " + quoted(strings.Join(waits, ",")), "--timeout " + plain(w.TimeoutSeconds) + "s", "--max-in-flight " + plain(float64(w.MaxInFlight)),
	}
	if w.RatePerSecond != nil {
		parts = append(parts, "--rate-per-second "+plain(*w.RatePerSecond))
	}
	if w.Description != "" {
		parts = append(parts, "--description "+quoted(w.Description))
	}
	for _, name := range w.HeaderNames {
		parts = append(parts, "--header "+quoted(name+"=…"))
	}
	return strings.Join(parts, " \\\n  ")
}

// quoted quotes text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
