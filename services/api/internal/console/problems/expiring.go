package problems

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/expiring"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// ending is something that ends soon.
type ending struct {
	expiring.Ending

	Left string `json:"-"` // time until its end
	Over bool   `json:"-"`
}

// endings are the things of the account that expire soon.
type endings = expiring.List[ending]

// readEndings reads the things that expire soon.
func readEndings(p *console.Page) (found endings, problem *console.Problem) {
	problem = p.API.Try("/v1/expiring", nil, &found)
	for i := range found.Data {
		found.Data[i].reckon(p.Now())
	}
	return found, problem
}

// reckon sets the time until the end.
func (e *ending) reckon(now time.Time) {
	left := web.Time(e.ExpiresAt).Sub(now)
	if e.Over = left <= 0; e.Over {
		e.Left = days(-left) + " ago"
		return
	}
	e.Left = "in " + days(left)
}

// days writes a span in days, and below a day and a half in hours, to the nearest.
func days(span time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case span >= day+day/2:
		return fmt.Sprintf("%d days", span.Round(day)/day)
	case span >= time.Hour+time.Hour/2:
		return fmt.Sprintf("%d hours", span.Round(time.Hour)/time.Hour)
	case span >= time.Hour:
		return "1 hour"
	}
	return "less than an hour"
}

// Name returns the name of the thing.
func (e *ending) Name() string {
	return cmp.Or(map[domain.ExpiryKind]string{
		domain.ExpiryReceiverCertificate: "TLS certificate of the receiver",
		domain.ExpiryClientCertificate:   "Client certificate",
		domain.ExpiryWebhookSecret:       "Previous secret",
		domain.ExpirySigningKey:          "Signing key",
		domain.ExpiryAPIKey:              "API key",
		domain.ExpiryDomainCertificate:   "Certificate of a custom domain",
		domain.ExpiryClientCA:            "CA certificate",
		domain.ExpiryCustomDomain:        "Custom domain",
	}[e.Kind], string(e.Kind))
}

// Of returns the owner of the thing.
func (e *ending) Of() string {
	switch {
	case e.WebhookID != "":
		return e.URL
	case e.Hostname != "":
		return e.Hostname
	case e.CA != "":
		return e.CAName
	case e.KeyID != "":
		return e.BucketName + "/" + e.ConsumerName
	}
	return e.SigningKeyID
}

// Link returns the path of the page to renew the thing.
func (e *ending) Link() string {
	switch e.Kind {
	case domain.ExpiryReceiverCertificate:
		return console.Path("console", "webhooks", e.WebhookID)
	case domain.ExpiryClientCertificate:
		return console.Path("console", "webhooks", e.WebhookID, "settings")
	case domain.ExpiryWebhookSecret:
		return console.Path("console", "webhooks", e.WebhookID, "secret")
	case domain.ExpirySigningKey:
		return "/console/signing-keys"
	case domain.ExpiryAPIKey:
		return console.Path("console", "access", "buckets", e.BucketName, "consumers", e.ConsumerName)
	case domain.ExpiryDomainCertificate, domain.ExpiryCustomDomain:
		return "/console/domains"
	case domain.ExpiryClientCA:
		return console.Path("console", "certificates", e.CA)
	}
	return ""
}

// unseen reports whether a part is left out because the session may not read it.
func unseen(problem *console.Problem) bool {
	return problem != nil && (problem.Status == http.StatusForbidden || problem.NoOperation)
}
