package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far a callback's timestamp may be from the receiver's clock, in
// either direction.
const Tolerance = 5 * time.Minute

// The reasons for which the verification of a callback fails.
var (
	ErrMissingHeader    = errors.New("missing header")
	ErrMalformedHeader  = errors.New("malformed header")
	ErrTimestampTooOld  = errors.New("timestamp too old")
	ErrTimestampTooNew  = errors.New("timestamp too new")
	ErrNoMatch          = errors.New("no matching signature")
	errDifferentVersion = errors.New("another version than v1 and v1a")
)

// Verify checks a callback as its receiver must: header is the request's, body the bytes as they
// came, now the receiver's clock. One signature that matches one of keys is enough; signatures of
// other versions are skipped. A secret checks only v1 signatures, a public key only v1a ones. The
// error wraps one of this package's Err values.
func Verify(header http.Header, body []byte, now time.Time, keys ...Key) error {
	id, err := single(header, HeaderID)
	if err != nil {
		return err
	}
	stamp, err := single(header, HeaderTimestamp)
	if err != nil {
		return err
	}
	signatures, err := single(header, HeaderSignature)
	if err != nil {
		return err
	}
	unix, err := parseTimestamp(stamp)
	if err != nil {
		return err
	}
	if err := checkAge(unix, now); err != nil {
		return err
	}
	for part := range strings.SplitSeq(signatures, " ") {
		s, err := parseSignature(part)
		if err == nil && matchAny(keys, &s, id, unix, body) >= 0 {
			return nil
		}
	}
	return ErrNoMatch
}

// single returns the only value of a header, whatever the case of its name.
func single(header http.Header, name string) (string, error) {
	var values []string
	for key, v := range header {
		if strings.EqualFold(key, name) {
			values = append(values, v...)
		}
	}
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", fmt.Errorf("%w: %s", ErrMissingHeader, name)
	case len(values) > 1:
		return "", fmt.Errorf("%w: %s is given %d times", ErrMalformedHeader, name, len(values))
	}
	return values[0], nil
}

// parseTimestamp reads Unix seconds: digits only, so that the signed and the
// checked text have the same form.
func parseTimestamp(text string) (int64, error) {
	unix, err := strconv.ParseInt(text, 10, 64)
	if err != nil || unix < 0 || strconv.FormatInt(unix, 10) != text {
		return 0, fmt.Errorf("%w: %s must be Unix seconds", ErrMalformedHeader, HeaderTimestamp)
	}
	return unix, nil
}

func checkAge(unix int64, now time.Time) error {
	tolerance := int64(Tolerance / time.Second)
	switch at := now.Unix(); {
	case unix < at-tolerance:
		return fmt.Errorf("%w: it is %d s old, %d s are tolerated", ErrTimestampTooOld, at-unix, tolerance)
	case unix > at+tolerance:
		return fmt.Errorf("%w: it is %d s ahead, %d s are tolerated", ErrTimestampTooNew, unix-at, tolerance)
	}
	return nil
}

// parsedSignature is one part of the webhook-signature header.
type parsedSignature struct {
	scheme string
	sum    []byte
}

// parseSignature reads one part of the webhook-signature header: v1 or v1a, a comma, and 44 or 88
// characters of padded base64.
func parseSignature(part string) (parsedSignature, error) {
	scheme, encoded, ok := strings.Cut(part, ",")
	if !ok {
		return parsedSignature{}, fmt.Errorf("%w: a signature is version,base64", ErrMalformedHeader)
	}
	size := encodedSize
	switch scheme {
	case version:
	case versionAsymmetric:
		size = asymmetricSize
	default:
		return parsedSignature{}, errDifferentVersion
	}
	if len(encoded) != size || strings.ContainsAny(encoded, "\r\n") {
		return parsedSignature{}, fmt.Errorf("%w: a %s signature has %d characters of base64", ErrMalformedHeader, scheme, size)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return parsedSignature{}, fmt.Errorf("%w: a %s signature is padded base64", ErrMalformedHeader, scheme)
	}
	return parsedSignature{scheme, sum}, nil
}
