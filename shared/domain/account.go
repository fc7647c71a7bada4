package domain

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// Scope is a permission that a consumer's keys carry. Each operation needs one.
type Scope string

// The scopes.
const (
	ScopeWebhooksRead  Scope = "webhooks:read"
	ScopeWebhooksWrite Scope = "webhooks:write"
	ScopeEventsRead    Scope = "events:read"  // events, deliveries and rejected messages
	ScopeEventsWrite   Scope = "events:write" // publish, test, retry, replay
	ScopeBucketsRead   Scope = "buckets:read" // buckets, consumers, keys, managers and projects
	ScopeBucketsWrite  Scope = "buckets:write"
	ScopeMCP           Scope = "mcp:use"
	// ScopeGatewayRead is for deployments, builds, environments, variables, analytics and logs.
	ScopeGatewayRead   Scope = "gateway:read"
	ScopeGatewayWrite  Scope = "gateway:write"
	ScopeMeteringRead  Scope = "metering:read"
	ScopeMeteringWrite Scope = "metering:write"
	ScopeAdmin         Scope = "admin" // all scopes, and the audit log
	// ScopeAny is a scope that every valid key has.
	ScopeAny Scope = "any"
)

// Scopes returns the scopes that a consumer may be given.
func Scopes() []Scope {
	return []Scope{
		ScopeWebhooksRead, ScopeWebhooksWrite, ScopeEventsRead, ScopeEventsWrite,
		ScopeBucketsRead, ScopeBucketsWrite, ScopeMCP,
		ScopeGatewayRead, ScopeGatewayWrite, ScopeMeteringRead, ScopeMeteringWrite, ScopeAdmin,
	}
}

// Account owns webhooks, events and key buckets, and sees nothing of other accounts. Its name
// identifies it everywhere, in bus subjects too.
type Account struct {
	ID        string // acct_ and 24 base62
	Name      string // ^[a-z0-9-]{1,64}$
	CreatedOn time.Time
}

// ValidAccount reports whether name can be an account's.
func ValidAccount(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Project groups an account's three default buckets.
type Project struct {
	ID        string // prj_ and 24 base62
	Account   string
	Name      string // ^[a-z0-9-]{1,100}$
	CreatedOn time.Time
	// ProductionBranch is the branch whose deployment is production. A change takes effect with
	// each branch's next build.
	ProductionBranch string
}

// Bucket is a group of consumers of an account.
type Bucket struct {
	ID          string // bckt_ and 32 base62
	Account     string
	Name        string // ^[a-z0-9-]{5,128}$, unique in the account
	Description string
	Tags        map[string]string
	// Retrievable reports whether the bucket's keys are stored so that they can be shown again. It
	// can't change after the bucket is made.
	Retrievable bool
	CreatedOn   time.Time
	UpdatedOn   time.Time
}

// Consumer is a holder of keys.
type Consumer struct {
	ID          string // csmr_ and 24 base62
	Account     string
	Bucket      string // name of its bucket
	Name        string // ^[a-z0-9-]{1,128}$, unique in the bucket
	Description string
	Tags        map[string]string
	Metadata    json.RawMessage // an object; nil: none
	Scopes      []Scope
	CreatedOn   time.Time
	UpdatedOn   time.Time
}

// APIKey is an API key. It may do what its consumer's scopes allow.
type APIKey struct {
	ID          string // key_ and 24 base62
	Description string
	ExpiresOn   time.Time // zero: never
	CreatedOn   time.Time
	UpdatedOn   time.Time
	// Suffix is the last 8 characters of the key, its checksum. It reveals nothing about the rest.
	Suffix string
	// Key is the key itself. It is stored, encrypted, only in a retrievable
	// bucket, and read only on request.
	Key Secret
	// Hash is the HMAC of the key, by which the key is found.
	Hash []byte
}

// Manager is a person who looks after a consumer.
type Manager struct {
	ID        string // eusr_ and 24 base62
	Email     string
	Sub       string
	CreatedOn time.Time
	// AcceptedOn is when the person accepted the invitation. Before that the manager has no rights; zero: not yet.
	AcceptedOn time.Time
}

// MaxManaged is how many consumers of an account one person may manage. It bounds the cost of that
// person's sign-in, whatever others register the person for.
const MaxManaged = 1000

// FoldEmail returns an email address in the form in which addresses are compared: with its ASCII letters,
// and no others, in lower case.
func FoldEmail(address string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, address)
}

// KeyHolder is the consumer that a key belongs to, with its account and scopes.
type KeyHolder struct {
	KeyID      string
	Account    string
	BucketID   string
	Bucket     string
	ConsumerID string
	Consumer   string
	Scopes     []Scope
	ExpiresOn  time.Time // zero: never
}

// Caller is the caller of a change, as the audit log shows it. It has no secrets.
type Caller struct {
	Account   string
	Sub       string // bucket/consumer, or bootstrap
	Type      string // "key", "bootstrap" or "manager"
	KeyID     string // or the manager's id; empty for the bootstrap key
	Session   string // of the console; empty: the caller used the key itself
	RequestID string
	Address   string
	UserAgent string
	Method    string
	Route     string // the template, never the path
}

// Resource is what a change was made to.
type Resource struct {
	Type string // account, project, bucket, consumer, key, manager, webhook, delivery, …
	ID   string
	Name string
}

// AuditEntry is one change that was made or refused.
type AuditEntry struct {
	ID        string
	At        time.Time
	Account   string // the account whose log it is in
	Action    string // create-bucket, roll-keys, …
	Caller    Caller
	Resources []Resource
	Success   bool
	Error     string // the code of the refusal; empty: none
	Count     int    // how often it was refused; 1 for a change that was made
}

// AuditRetention is how long audit entries are kept.
const AuditRetention = 90 * 24 * time.Hour

// CutText returns at most limit bytes of text, in whole characters that every database can store.
func CutText(text string, limit int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Limits are how many things of each kind an account may have.
type Limits struct {
	Projects, Buckets, Consumers, Keys, Managers, Variables int64
}

// DefaultLimits returns the limits of an installation that sets none. A fleet of a million devices, each with a consumer and a key that is
// being replaced, stays below them.
func DefaultLimits() Limits {
	return Limits{Projects: 50_000, Buckets: 200_000, Consumers: 2_000_000, Keys: 5_000_000, Managers: 100_000, Variables: 100_000}
}
