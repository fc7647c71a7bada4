package authenticator_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/seal"
)

// good is a key whose checksum was reckoned elsewhere (zlib.crc32 of Python).
const good = "wbk_0123456789abcdefghijklmnopqrstuv_782bbe53"

func hasher(t testing.TB, keys ...string) *authenticator.Hasher {
	t.Helper()
	if keys == nil {
		keys = []string{seal.Generate()}
	}
	h, err := authenticator.NewHasher(peppers(t, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func peppers(t testing.TB, keys ...string) [][]byte {
	t.Helper()
	ring, err := seal.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring.Derive("api keys")
}

// well returns a well-formed key over 32 characters.
func well(body string) string {
	return fmt.Sprintf("wbk_%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	body := "0123456789abcdefghijklmnopqrstuv"
	for name, tc := range map[string]struct {
		key  string
		want bool
	}{
		"known":                    {good, true},
		"upper case":               {well(strings.ToUpper(body)), true},
		"empty":                    {"", false},
		"checksum of another":      {good[:len(good)-1] + "4", false},
		"a typo":                   {strings.Replace(good, "a", "b", 1), false},
		"two characters swapped":   {strings.Replace(good, "01", "10", 1), false},
		"checksum in upper case":   {"wbk_" + body + "_782BBE53", false},
		"another prefix":           {"zpka_" + body + "_782bbe53", true},
		"prefix in upper case":     {"WBK_" + body + "_782bbe53", true},
		"no prefix":                {body + "_782bbe53", true},
		"brought along":            {"!~" + body[2:], true},
		"brought along, the least": {strings.Repeat("x", 32), true},
		"one less":                 {strings.Repeat("x", 31), false},
		"the most":                 {strings.Repeat("x", 256), true},
		"one more":                 {strings.Repeat("x", 257), false},
		"a space in it":            {"a b" + body, false},
		"not ASCII":                {"é" + body, false},
		"only the prefix":          {"wbk_" + strings.Repeat("x", 40), false},
		"too short":                {well(body[1:]), false},
		"too long":                 {well(body + "w"), false},
		"a hyphen":                 {well("-" + body[1:]), false},
		"an underscore":            {well("_" + body[1:]), false},
		"beyond ASCII":             {well("é" + body[2:]), false},
		"another separator":        {"wbk_" + body + "-782bbe53", false},
		"more behind":              {good + "0", false},
		"a space before":           {" " + good, false},
		"NUL in it":                {well("\x00" + body[1:]), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := authenticator.WellFormed(tc.key); got != tc.want {
				t.Errorf("WellFormed is %v, want %v", got, tc.want)
			}
			_, err := hasher(t).Import(tc.key)
			if tc.want != (err == nil) || err != nil && !errors.Is(err, authenticator.ErrKeyForm) {
				t.Errorf("Import: %v", err)
			}
		})
	}
}

func FuzzWellFormed(f *testing.F) {
	f.Add(good)
	f.Add("zpka_0123456789abcdefghijklmnopqrstuv_782bbe53")
	ours, brought := regexp.MustCompile(`\Awbk_([0-9A-Za-z]{32})_([0-9a-f]{8})\z`), regexp.MustCompile(`\A[[:graph:]]{32,256}\z`)
	f.Fuzz(func(t *testing.T, key string) {
		parts := ours.FindStringSubmatch(key)
		want := len(parts) == 3 && fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(parts[1]))) == parts[2]
		if !strings.HasPrefix(key, "wbk_") {
			want = brought.MatchString(key)
		}
		if got := authenticator.WellFormed(key); got != want {
			t.Errorf("WellFormed(%q) is %v", key, got)
		}
	})
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	h := hasher(t)
	seen := map[string]bool{}
	count := map[byte]int{}
	const keys = 2000
	for range keys {
		k := h.NewKey()
		text := k.Key.Reveal()
		if !authenticator.WellFormed(text) || seen[text] || k.Suffix != text[len(text)-8:] || len(k.Hash) != 32 {
			t.Fatalf("key, suffix or hash is wrong; seen before: %v", seen[text])
		}
		seen[text] = true
		for _, c := range []byte(text[4:36]) {
			count[c]++
		}
		again, err := h.Import(text)
		if err != nil || !bytes.Equal(again.Hash, k.Hash) || again.Suffix != k.Suffix || again.Key != k.Key {
			t.Fatalf("imported, it is another: %v", err)
		}
	}
	// Each of the 62 characters comes as often as any other: 1032 times, give or take 32.
	for c, n := range count {
		if mean := keys * 32 / 62; n < mean*3/4 || n > mean*5/4 {
			t.Errorf("%q came %d times, the mean is %d", c, n, mean)
		}
	}
	if len(count) != 62 {
		t.Errorf("%d different characters came", len(count))
	}
}

func TestHasherTellsNothing(t *testing.T) {
	t.Parallel()
	key := seal.Generate()
	h := hasher(t, key)
	pepper := peppers(t, key)[0]
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "h", h)
	made := h.NewKey()
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %x %d", h, h, h, h, h, h), log.String(), fmt.Sprintf("%v %+v %#v", made, made, made)} {
		for _, secret := range []string{string(pepper), hex.EncodeToString(pepper), fmt.Sprintf("%d", pepper[:4]), made.Key.Reveal()} {
			if strings.Contains(text, strings.Trim(secret, "[]")) {
				t.Errorf("a secret shows: %s", text)
			}
		}
	}
	if _, err := authenticator.NewHasher(nil); err == nil {
		t.Error("a hasher without a pepper was made")
	}
}
