package domain

import (
	"regexp"
	"time"
)

// Bounds of CA certificates for clients.
const (
	MaxClientCAs     = 50       // of an account
	MaxClientCABytes = 16 << 10 // of one certificate, in PEM
)

// ClientCA is the certificate of an authority. Routes that ask for client certificates let in
// clients whose certificates the authority has issued.
type ClientCA struct {
	ID          string
	Account     string
	Name        string
	Certificate []byte // DER
	CreatedOn   time.Time
	UpdatedOn   time.Time
}

var clientCAName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,127}$`)

// ValidClientCAName reports whether a CA certificate can have the name.
func ValidClientCAName(name string) bool { return clientCAName.MatchString(name) }
