package domain

import "time"

// ExpirySoon is how long before its end an expiry is reported.
const ExpirySoon = 14 * 24 * time.Hour

// MaxExpiring is the highest count of a kind: it means MaxExpiring or more.
const MaxExpiring = 1000

// Certificate is the part of a receiver's certificate that a connection reports.
type Certificate struct {
	ExpiresAt time.Time // zero: it does not end within ExpirySoon
	Version   int64     // of the webhook
}

// ExpiryKind is a kind of thing that expires.
type ExpiryKind string

// The kinds.
const (
	ExpiryReceiverCertificate ExpiryKind = "receiverCertificate" // of a webhook's receiver
	ExpiryClientCertificate   ExpiryKind = "clientCertificate"   // the one that a webhook shows its receiver
	ExpiryWebhookSecret       ExpiryKind = "webhookSecret"       // the previous secret, in its overlap
	ExpirySigningKey          ExpiryKind = "signingKey"          // a key that is not the present one
	ExpiryAPIKey              ExpiryKind = "apiKey"
	ExpiryDomainCertificate   ExpiryKind = "domainCertificate"   // of a custom domain
	ExpiryClientCA            ExpiryKind = "clientCaCertificate" // of an authority; gateways let its clients in
	ExpiryCustomDomain        ExpiryKind = "customDomain"        // a hostname that will pass to another account
)

// Certificate reports whether things of the kind are certificates. Certificates that have ended are
// reported until they are renewed; a key or secret that has ended needs no action any more.
func (k ExpiryKind) Certificate() bool {
	return k == ExpiryReceiverCertificate || k == ExpiryClientCertificate || k == ExpiryDomainCertificate || k == ExpiryClientCA
}

// Since returns the earliest end of a thing of the kind that is reported at now.
func (k ExpiryKind) Since(now time.Time) time.Time {
	if k.Certificate() {
		return time.UnixMicro(1)
	}
	return now
}

// Expiry is a thing of an account that expires.
type Expiry struct {
	Kind ExpiryKind
	At   time.Time

	Webhook WebhookID // and its URL; for certificates and secrets
	URL     string
	Key     string // id of the signing key, API key or CA certificate
	Name    string // of the CA certificate
	// Bucket and Consumer are those of the API key.
	Bucket, Consumer string
	Hostname         string // of the custom domain
}

// ExpiryCount is how many things of a kind end within ExpirySoon, over all accounts.
type ExpiryCount struct {
	Kind    ExpiryKind
	N       int
	Soonest time.Time // zero: there are none
}
