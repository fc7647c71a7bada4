package domain

import "time"

// SigningKey is an Ed25519 key of an account, with which callbacks are signed by v1a.
type SigningKey struct {
	ID        string // a time-ordered UUID
	Account   string
	Public    []byte // 32 bytes
	Private   Secret // whsk_ and base64; empty where only public keys were asked for, or with a Fault
	CreatedAt time.Time
	ExpiresAt time.Time // from then on it signs nothing; zero: it is the present key
	// Fault says, in words for the account's owner, why the private key can't be read. Empty: it can.
	Fault string
}

// MaxSigningKeys is how many keys of an account sign at once, those in their overlap included:
// each adds 92 bytes to the header of a callback.
const MaxSigningKeys = 5

// Asymmetric reports whether callbacks carry a v1a signature.
func (s Signing) Asymmetric() bool { return s == SigningV1A || s == SigningBoth }

// Symmetric reports whether callbacks carry a v1 signature.
func (s Signing) Symmetric() bool { return s != SigningV1A }
