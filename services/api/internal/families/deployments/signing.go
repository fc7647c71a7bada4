package deployments

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/shared/problem"
)

// sign returns the path of the URL for the upload of a source's archive, valid until a time.
func (h *handlers) sign(id string, until time.Time) string {
	expires := strconv.FormatInt(until.Unix(), 10)
	query := url.Values{"expires": {expires}, "signature": {signature(h.Signing[0], id, expires)}}
	return uploadsPath + "/" + url.PathEscape(id) + "?" + query.Encode()
}

func signature(key []byte, id, expires string) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("PUT\n" + id + "\n" + expires)) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify refuses a URL that sign has not returned, or that has expired. The answer is the same
// whether the source exists or not.
func (h *handlers) verify(id, expires, given string, now time.Time) error {
	good := false
	for _, key := range h.Signing {
		good = hmac.Equal([]byte(signature(key, id, expires)), []byte(given)) || good
	}
	var refusal *problem.Problem
	seconds, err := strconv.ParseInt(expires, 10, 64)
	switch {
	case !good || err != nil:
		refusal = errAltered
	case now.Unix() >= seconds:
		refusal = errLate
	default:
		return nil
	}
	return refusal
}
