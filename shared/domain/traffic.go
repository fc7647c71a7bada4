package domain

import (
	"crypto/sha256"
	"encoding/hex"
)

// LocalDeployment is the built-in deployment: the route files of Waybill's own processes. It
// belongs to DefaultAccount.
const LocalDeployment = "local"

// Severity is the severity of an entry of a request's log.
type Severity string

// The severities, the lowest first.
const (
	SeverityDebug Severity = "debug"
	SeverityInfo  Severity = "info"
	SeverityWarn  Severity = "warn"
	SeverityError Severity = "error"
)

// Severities returns all severities, the lowest first.
func Severities() []Severity {
	return []Severity{SeverityDebug, SeverityInfo, SeverityWarn, SeverityError}
}

func (s Severity) rank() int {
	switch s {
	case SeverityInfo:
		return 1
	case SeverityWarn:
		return 2
	case SeverityError:
		return 3
	}
	return 0
}

// Above reports whether s is higher than other.
func (s Severity) Above(other Severity) bool { return s.rank() > other.rank() }

// SeverityOfStatus returns the severity of an answer with the status.
func SeverityOfStatus(status int) Severity {
	switch {
	case status >= 500:
		return SeverityError
	case status >= 400:
		return SeverityWarn
	}
	return SeverityInfo
}

// Consumers of requests whose caller has no name.
const (
	ConsumerAnonymous = "anonymous"
	// ConsumerOther stands for the consumers beyond the number that is counted separately.
	ConsumerOther = "other"

	consumerOfCertificate = "cert:"
	maxConsumer           = 256 // bytes
)

// ConsumerOfCertificate returns the consumer of requests whose caller is known only by the subject
// of its certificate. A subject that is too long is replaced by a digest.
func ConsumerOfCertificate(subject string) string {
	if name := consumerOfCertificate + subject; len(name) <= maxConsumer {
		return name
	}
	digest := sha256.Sum256([]byte(subject))
	return consumerOfCertificate + "sha256:" + hex.EncodeToString(digest[:])
}
