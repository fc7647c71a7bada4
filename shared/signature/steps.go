package signature

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Step is one check of a callback, for a person who looks for what is wrong.
type Step struct {
	Name   string // the header, or what is compared
	OK     bool
	Detail string // never a secret, nor the signature that was expected
}

// VerifySteps makes the checks of Verify one by one and goes on after a fault. All steps
// are OK exactly when Verify returns nil.
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

// describe counts what a webhook-signature header has.
func describe(signatures string) string {
	var good, other, bad int
	for part := range strings.SplitSeq(signatures, " ") {
		switch _, err := parseSignature(part); {
		case err == nil:
			good++
		case errors.Is(err, errDifferentVersion):
			other++
		default:
			bad++
		}
	}
	text := fmt.Sprintf("%d of version v1", good)
	if other > 0 {
		text += fmt.Sprintf(", %d of another version (skipped)", other)
	}
	if bad > 0 {
		text += fmt.Sprintf(", %d malformed (skipped)", bad)
	}
	return text
}

// match compares every signature with every key and, when none fits, tries the bodies
// that receivers commonly make of the one they got.
func match(signatures, id string, unix int64, body []byte, keys []Key) (ok bool, detail string) {
	var macs [][]byte
	for part := range strings.SplitSeq(signatures, " ") {
		if mac, err := parseSignature(part); err == nil {
			macs = append(macs, mac)
		}
	}
	for i, mac := range macs {
		for j, key := range keys {
			if NewSigner(key).matches(mac, id, unix, body) {
				return true, fmt.Sprintf("signature %d of %d matches secret %d of %d", i+1, len(macs), j+1, len(keys))
			}
		}
	}
	signer := NewSigner(keys...)
	for _, mac := range macs {
		if trimmed := bytes.TrimRight(body, "\r\n"); len(trimmed) < len(body) && signer.matches(mac, id, unix, trimmed) {
			return false, "it would match without the line break at the end of the body, which something added on the way"
		}
	}
	return false, fmt.Sprintf("none of %d signatures matches: another secret was used, or the %d bytes of the body are not those that were sent", len(macs), len(body))
}
