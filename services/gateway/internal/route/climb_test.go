package route_test

import (
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/route"
)

func TestClimbs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		".", "..", "/..", "/a/../b", `a\..`, "/a/..;x/b", "/a/%2e%2e/b", "/a/.%2E", "/a/..%2fb", "/a/..%5cb", "/a/%2e%2e%3bx/b", "/%252e%252e/b", "/%25252e%25252e/b",
		// What can't be decoded hides nothing.
		"/%2e%2e/%zz", "/%252e%252e/%25zz", "/%252e%252e%252fadmin/100%25", "/%252e%252e/%25", "/%/%2e%2e", "/%%32%65%%32%65/b",
		// Nobody escapes so often.
		"/" + strings.Repeat("%25", 9) + strings.Repeat("25", 20) + "41",
	} {
		if !route.Climbs(text) {
			t.Errorf("%.80s does not climb", text)
		}
	}
	for _, text := range []string{"", "/", "/a/b", "/a.b/c..d/...", "/100%25", "/100%", "/a%2Fb", "/%zz", "/a%20b/%C3%A9", "/50%2525", "/.well-known/x", "/a;.."} {
		if route.Climbs(text) {
			t.Errorf("%s climbs", text)
		}
	}
}

// The longest path that a header can have takes no time to speak of, however it is escaped.
func TestClimbsInTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	route.Climbs("/%" + strings.Repeat("25", 1<<19) + "2e")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Whatever a server that decodes up to three times makes of a path that is let through, it
// stays below where it began.
func FuzzClimbs(f *testing.F) {
	for _, seed := range []string{"/a/b", "/%252e%252e/%25zz", "/a%2f..%2fb", "/..;/", `\..\`, "/100%25"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if route.Climbs(text) {
			return
		}
		for range 3 {
			decoded, err := url.PathUnescape(text)
			if err != nil {
				return
			}
			text = decoded
			plain := "/base/" + strings.ReplaceAll(text, `\`, "/")
			if cleaned := path.Clean(plain) + "/"; !strings.HasPrefix(cleaned, "/base/") {
				t.Fatalf("%q leads to %q", text, cleaned)
			}
		}
	})
}
