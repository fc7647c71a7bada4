package deliveries

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
)

// detail is a delivery with its attempts, as the API shows it.
type detail struct {
	deliverylog.Delivery

	Attempts []attempt `json:"attempts"`
}

// attempt is one callback with its answer. What the API does not know of it is zero.
type attempt struct {
	Number          int      `json:"number"`
	StartedAt       string   `json:"startedAt"`
	DurationMs      float64  `json:"durationMs"`
	Status          int      `json:"status"`
	Class           string   `json:"class"`
	Error           string   `json:"error"`
	ResponseBody    string   `json:"responseBody"`
	Truncated       bool     `json:"responseBodyTruncated"`
	URL             string   `json:"url"`
	RemoteAddress   string   `json:"remoteAddress"`
	RequestHeaders  []header `json:"requestHeaders"`
	ResponseHeaders []header `json:"responseHeaders"`
	Phases          phases   `json:"phases"`
}

// header is one line of a header; without a value: it is not shown.
type header struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// phases are milliseconds.
type phases struct {
	DNS       float64 `json:"dnsMs"`
	Connect   float64 `json:"connectMs"`
	TLS       float64 `json:"tlsMs"`
	FirstByte float64 `json:"firstByteMs"`
	Body      float64 `json:"bodyMs"`
}

func (p phases) sum() float64 { return p.DNS + p.Connect + p.TLS + p.FirstByte + p.Body }

// Tone colours an attempt.
func (a attempt) Tone() string {
	if a.good() {
		return "good"
	}
	return "bad"
}

func (a attempt) good() bool {
	return a.Status >= http.StatusOK && a.Status < http.StatusMultipleChoices
}

// Outcome says how it ended, in a few words.
func (a attempt) Outcome() string {
	switch {
	case a.Status > 0:
		return strings.TrimSpace(strconv.Itoa(a.Status) + " " + http.StatusText(a.Status))
	case a.Error != "":
		return a.Error
	}
	return "no answer"
}

// value returns the value of a header's first line of that name.
func value(fields []header, name string) string {
	i := slices.IndexFunc(fields, func(h header) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 || fields[i].Value == nil {
		return ""
	}
	return *fields[i].Value
}

// RequestHead is the request as it was sent, without its body; empty: it is not known.
func (a attempt) RequestHead() string {
	if len(a.RequestHeaders) == 0 {
		return ""
	}
	target, host := "/", ""
	if u, err := url.Parse(a.URL); err == nil {
		target, host = u.RequestURI(), u.Host
	}
	var b strings.Builder
	b.WriteString("POST " + target + " HTTP/1.1\n")
	if host != "" && value(a.RequestHeaders, "host") == "" {
		b.WriteString("Host: " + host + "\n")
	}
	writeFields(&b, a.RequestHeaders)
	return strings.TrimSuffix(b.String(), "\n")
}

// ResponseHead is the answer without its body; empty: there was none.
func (a attempt) ResponseHead() string {
	if a.Status == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + a.Outcome() + "\n")
	writeFields(&b, a.ResponseHeaders)
	return strings.TrimSuffix(b.String(), "\n")
}

func writeFields(b *strings.Builder, fields []header) {
	for _, h := range fields {
		b.WriteString(h.Name + ": ")
		if h.Value == nil {
			b.WriteString("(not shown)")
		} else {
			b.WriteString(*h.Value)
		}
		b.WriteByte('\n')
	}
}

// IsJSON reports whether the answer says that its body is JSON.
func (a attempt) IsJSON() bool {
	kind := value(a.ResponseHeaders, "content-type")
	return strings.Contains(kind, "json") || kind == "" && strings.HasPrefix(strings.TrimSpace(a.ResponseBody), "{")
}

// SignedPrefix is what stands before the body in what was signed.
func (a attempt) SignedPrefix() string {
	id, at := value(a.RequestHeaders, "webhook-id"), value(a.RequestHeaders, "webhook-timestamp")
	if id == "" || at == "" {
		return ""
	}
	return id + "." + at + "."
}

// Verify is the command that checks the signature as the receiver must.
func (a attempt) Verify() string {
	at := value(a.RequestHeaders, "webhook-timestamp")
	return "waybill signature verify --secret whsec_… --body event.json \\\n  --id " + console.Shell(value(a.RequestHeaders, "webhook-id")) +
		" --timestamp " + console.Shell(at) + " --at " + console.Shell(at) + " \\\n  --signature " + console.Shell(value(a.RequestHeaders, "webhook-signature"))
}

// explanation is why a delivery is where it is; see GET /v1/explanations.
type explanation struct {
	Verdict string   `json:"verdict"`
	Summary string   `json:"summary"`
	Chain   []check  `json:"chain"`
	Advice  []string `json:"advice"`
	Event   *struct {
		ID         string `json:"id"`
		Type       string `json:"type"`
		ReceivedAt string `json:"receivedAt"`
	} `json:"event"`
	Webhook  *webhook `json:"webhook"`
	Delivery *detail  `json:"delivery"`
}

// check is one check on the way of an event to a receiver.
type check struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Detail string `json:"detail"`
	Answer string `json:"answer"`
}

// webhook is the webhook as it is now.
type webhook struct {
	ID                   string    `json:"id"`
	URL                  string    `json:"url"`
	Active               bool      `json:"active"`
	TimeoutSeconds       float64   `json:"timeoutSeconds"`
	RetryScheduleSeconds []float64 `json:"retryScheduleSeconds"`
}

// health is what the page wants of a webhook's health.
type health struct {
	Circuit struct {
		Open           bool    `json:"open"`
		Since          *string `json:"since"`
		FailuresInARow int     `json:"failuresInARow"`
		NextProbeAt    *string `json:"nextProbeAt"`
	} `json:"circuit"`
	LastSuccessAt *string `json:"lastSuccessAt"`
}
