package signature

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Step is one check of a callback, shown to a person who looks for a fault.
type Step struct {
	Name   string // the header, or what is compared
	OK     bool
	Detail string // never contains a secret, nor the expected signature
}

// VerifySteps makes the checks of Verify one by one, and goes on after a fault. All steps are OK
// exactly if Verify returns nil.
func VerifySteps(header http.Header, body []byte, now time.Time, keys ...Key) []Step {
	id, idErr := single(header, HeaderID)
	stamp, stampErr := single(header, HeaderTimestamp)
	signatures, signErr := single(header, HeaderSignature)
	var unix int64
	if stampErr == nil {
		unix, stampErr = parseTimestamp(stamp)
	}
	parsed := stampErr == nil
	if parsed {
		stampErr = checkAge(unix, now)
	}
	steps := []Step{
		step(HeaderID, idErr, "the id of the event, the same on every attempt"),
		step(HeaderTimestamp, stampErr, fmt.Sprintf("%d s from this clock, %d s are tolerated", now.Unix()-unix, int64(Tolerance/time.Second))),
		step(HeaderSignature, signErr, describe(signatures)),
	}
	last := Step{Name: "signature of id.timestamp.body"}
	switch {
	case idErr != nil || signErr != nil || !parsed:
		last.Detail = "not checked: a header is missing or malformed"
	case len(keys) == 0:
		last.Detail = "not checked: no secret is known"
	default:
		last.OK, last.Detail = match(signatures, id, unix, body, keys)
	}
	return append(steps, last)
}

func step(name string, err error, fine string) Step {
	if err != nil {
		return Step{Name: name, Detail: err.Error()}
	}
	return Step{Name: name, OK: true, Detail: fine}
}

// describe counts the signatures in a webhook-signature header by kind.
func describe(signatures string) string {
	var symmetric, asymmetric, other, bad int
	for part := range strings.SplitSeq(signatures, " ") {
		switch s, err := parseSignature(part); {
		case err == nil && s.scheme == versionAsymmetric:
			asymmetric++
		case err == nil:
			symmetric++
		case errors.Is(err, errDifferentVersion):
			other++
		default:
			bad++
		}
	}
	text := fmt.Sprintf("%d of version v1", symmetric)
	if asymmetric > 0 {
		text += fmt.Sprintf(", %d of version v1a", asymmetric)
	}
	if other > 0 {
		text += fmt.Sprintf(", %d of another version (skipped)", other)
	}
	if bad > 0 {
		text += fmt.Sprintf(", %d malformed (skipped)", bad)
	}
	return text
}

// match compares every signature with every key. If none fits, it tries the bodies that receivers
// commonly make from the body that they got.
func match(signatures, id string, unix int64, body []byte, keys []Key) (ok bool, detail string) {
	var given []parsedSignature
	for part := range strings.SplitSeq(signatures, " ") {
		if s, err := parseSignature(part); err == nil {
			given = append(given, s)
		}
	}
	for i := range given {
		if j := matchAny(keys, &given[i], id, unix, body); j >= 0 {
			return true, fmt.Sprintf("signature %d of %d matches %s %d of %d", i+1, len(given), kind(keys[j]), j+1, len(keys))
		}
	}
	for i := range given {
		if trimmed := bytes.TrimRight(body, "\r\n"); len(trimmed) < len(body) && matchAny(keys, &given[i], id, unix, trimmed) >= 0 {
			return false, "it would match without the line break at the end of the body, which something added on the way"
		}
	}
	if len(given) > 0 && !slices.ContainsFunc(given, func(s parsedSignature) bool { return slices.ContainsFunc(keys, s.isFor) }) {
		if given[0].scheme == versionAsymmetric {
			return false, "it is signed by v1a alone, which takes a public key (whpk_…) to check, and only secrets were given"
		}
		return false, "it is signed by v1 alone, which takes the webhook's secret (whsec_…) to check, and only public keys were given"
	}
	return false, fmt.Sprintf("none of %d signatures matches: another secret or key was used, or the %d bytes of the body are not those that were sent", len(given), len(body))
}

// isFor reports whether the signature is of the scheme that the key checks.
func (s parsedSignature) isFor(k Key) bool { return (s.scheme == versionAsymmetric) == k.Public() }

// kind returns the kind of a key in words.
func kind(k Key) string {
	if k.Public() {
		return "public key"
	}
	return "secret"
}
