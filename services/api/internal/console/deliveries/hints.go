package deliveries

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// maxSkew is how far a receiver's clock may be off before the page says so: receivers that follow
// Standard Webhooks refuse a timestamp that is further off.
const maxSkew = 5 * time.Minute

// hints returns likely causes for an attempt's answer. Said says that the verdict already states
// what follows from the status alone.
func hints(a attempt, timeoutSeconds float64, said bool) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch {
	case a.Status >= 300 && a.Status < 400:
		if to := value(a.ResponseHeaders, "location"); to != "" {
			add("The receiver redirects to %s. Redirects are never followed: make this the webhook's URL.", to)
		} else if !said {
			add("The receiver redirects, and redirects are never followed. Set the webhook's URL to where it leads.")
		}
	case (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden) && !said:
		add("The receiver refuses the callback. Check the secret that it verifies with, its clock, and the webhook's own headers.")
	case (a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed) && !said:
		add("The receiver takes no POST at this address. Check the path of the webhook's URL.")
	case a.Status == http.StatusRequestEntityTooLarge:
		add("The body is too large for the receiver. An event may have 256 KiB: raise the limit of the receiver, or of the proxy before it.")
	case a.Status == http.StatusGone && !said:
		add("410 says that the receiver wants no more events. The webhook became inactive.")
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		if after := value(a.ResponseHeaders, "retry-after"); after != "" {
			add("The receiver asks to wait: Retry-After %s. Of it, at most 24 h count.", after)
		}
	}
	switch a.Class {
	case domain.ClassTimeout:
		if timeoutSeconds > 0 {
			add("No answer came within %v s. A receiver should answer first and work afterwards.", timeoutSeconds)
		} else {
			add("No answer came in time. A receiver should answer first and work afterwards.")
		}
	case domain.ClassDNS:
		add("The host's name could not be looked up. Check its spelling and its DNS records.")
	case domain.ClassConnect:
		add("No connection could be made. Check that the receiver runs, its port, and firewalls in between.")
	case domain.ClassTLS:
		add("The TLS handshake failed. Most often the certificate is expired, is for another name, or lacks an intermediate one.")
	case domain.ClassRefused:
		add("Waybill's own rules forbid this address. Whoever runs it may allow a network with WAYBILL_EGRESS_ALLOW.")
	case domain.ClassProtocol:
		add("What came back was not a whole HTTP answer. Is another service listening on this port?")
	}
	if loginPage(a) {
		add("The answer is an HTML page that asks for a login. The address leads to a website, not to the receiver.")
	}
	if off := skew(a); off != "" {
		add("The receiver's clock is %s. It will refuse signatures whose timestamp seems too old or too new.", off)
	}
	return list
}

// loginPage reports whether an answer is a page that asks for a password.
func loginPage(a attempt) bool {
	if !strings.Contains(value(a.ResponseHeaders, "content-type"), "html") {
		return false
	}
	body := strings.ToLower(a.ResponseBody)
	return strings.Contains(body, `type="password"`) || strings.Contains(body, "type=password") ||
		strings.Contains(body, "<form") && (strings.Contains(body, "login") || strings.Contains(body, "sign in") || strings.Contains(body, "signin"))
}

// skew says how far the receiver's clock is off, going by the Date of its answer; empty: not far.
func skew(a attempt) string {
	theirs, err := http.ParseTime(value(a.ResponseHeaders, "date"))
	if err != nil {
		return ""
	}
	ours := web.Time(a.StartedAt)
	if ours.IsZero() {
		return ""
	}
	ours = ours.Add(time.Duration(a.DurationMs) * time.Millisecond)
	switch off := theirs.Sub(ours).Round(time.Second); {
	case off > maxSkew:
		return off.String() + " fast"
	case off < -maxSkew:
		return (-off).String() + " slow"
	}
	return ""
}
