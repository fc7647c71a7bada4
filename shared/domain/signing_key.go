package domain

import "time"

// SigningKey is an Ed25519 key of an account that signs callbacks by v1a.
type SigningKey struct {
	ID        string // a time-ordered UUID
	Account   string
	Public    []byte // 32 bytes
	Private   Secret // whsk_ and base64; empty if only public keys were asked for, or with a Fault
	CreatedAt time.Time
	ExpiresAt time.Time // after that it does not sign; zero: it is the present key
	// Fault says, in words for the account's owner, why the private key can't be read. Empty: it
	// can be read.
	Fault string
}

// MaxSigningKeys is how many keys of an account sign at once, including those in their overlap:
// each adds 92 bytes to the header of a callback.
const MaxSigningKeys = 5

// Asymmetric reports whether callbacks have a v1a signature.
func (s Signing) Asymmetric() bool { return s == SigningV1A || s == SigningBoth }

// Symmetric reports whether callbacks have a v1 signature.
func (s Signing) Symmetric() bool { return s != SigningV1A }
