package domain

import "time"

// ExpirySoon is how long before its end something is told of.
const ExpirySoon = 14 * 24 * time.Hour

// MaxExpiring is where the count of a kind ends: a count of MaxExpiring says so many or more.
const MaxExpiring = 1000

// Certificate is what a connection saw of a receiver's certificate.
type Certificate struct {
	ExpiresAt time.Time // zero: it does not end within ExpirySoon
	Version   int64     // of the webhook
}

// ExpiryKind is a kind of thing that ends.
type ExpiryKind string

// The kinds.
const (
	ExpiryReceiverCertificate ExpiryKind = "receiverCertificate" // of a webhook's receiver
	ExpiryClientCertificate   ExpiryKind = "clientCertificate"   // that a webhook shows its receiver
	ExpiryWebhookSecret       ExpiryKind = "webhookSecret"       // the previous one, in its overlap
	ExpirySigningKey          ExpiryKind = "signingKey"          // one that is not the present one
	ExpiryAPIKey              ExpiryKind = "apiKey"
	ExpiryDomainCertificate   ExpiryKind = "domainCertificate"   // of a custom domain
	ExpiryClientCA            ExpiryKind = "clientCaCertificate" // of an authority whose clients gateways let in
	ExpiryCustomDomain        ExpiryKind = "customDomain"        // a hostname that is to pass to another account
)

// Certificate reports whether things of the kind are certificates. Those that have ended are told
// of until they are renewed; a key or secret that has ended needs nothing any more.
func (k ExpiryKind) Certificate() bool {
	return k == ExpiryReceiverCertificate || k == ExpiryClientCertificate || k == ExpiryDomainCertificate || k == ExpiryClientCA
}

// Since returns from when on the end of a thing must be for it to be told of at now.
func (k ExpiryKind) Since(now time.Time) time.Time {
	if k.Certificate() {
		return time.UnixMicro(1)
	}
	return now
}

// Expiry is something of an account that ends.
type Expiry struct {
	Kind ExpiryKind
	At   time.Time

	Webhook WebhookID // and its URL; of certificates and secrets
	URL     string
	Key     string // id of the signing key, API key or CA certificate
	Name    string // of the CA certificate
	// Bucket and Consumer say whose API key it is.
	Bucket, Consumer string
	Hostname         string // of the custom domain
}

// ExpiryCount is how many things of a kind end within ExpirySoon, over all accounts.
type ExpiryCount struct {
	Kind    ExpiryKind
	N       int
	Soonest time.Time // zero: there are none
}
