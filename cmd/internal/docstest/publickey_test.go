package docstest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkSnippet calls what the receivers' page has for public keys.
const checkSnippet = `package receiver

import (
	"crypto/ed25519"
	"net/http"
	"strconv"
	"testing"
	"time"

	"waybill.dev/shared/signature"
)

func TestVerify(t *testing.T) {
	mine, other := signature.NewPrivateKey(), signature.NewPrivateKey()
	keys := []ed25519.PublicKey{mine.Public()}
	now, body := time.Now(), []byte("{\"n\":1}")
	header := func(at time.Time, signed string) http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg_1")
		h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
		h.Set("webhook-signature", signed)
		return h
	}
	sign := func(at time.Time, keys ...signature.PrivateKey) string { return signature.SignAsymmetric(keys, "msg_1", at, body) }
	old := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   bool
	}{
		"signed":            {header(now, sign(now, mine)), string(body), true},
		"among others":      {header(now, "v1,AAAA "+sign(now, other, mine)), string(body), true},
		"by another key":    {header(now, sign(now, other)), string(body), false},
		"of another body":   {header(now, sign(now, mine)), "{}", false},
		"of another time":   {header(now.Add(-time.Minute), sign(now, mine)), string(body), false},
		"old":               {header(old, sign(old, mine)), string(body), false},
		"without signature": {header(now, ""), string(body), false},
	} {
		if got := Verify(keys, c.header, []byte(c.body)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
`

// The Go that receivers are given for public keys takes what is signed, and nothing else.
func TestPublicKeySnippet(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "docs/receivers.md"), "\n### With a public key\n")
	_, section, _ = strings.Cut(section, "```go\n")
	snippet, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("receivers.md has no Go for public keys")
	}
	replace := make(map[string]string)
	for name, text := range map[string]string{"snippet.go": snippet, "snippet_test.go": checkSnippet} {
		place, err := filepath.Abs(filepath.Join("publickey", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[place] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(replace[place], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(t.TempDir(), "publickey.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", test, "./publickey").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), test).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("%v\n%s", err, out)
	}
}
