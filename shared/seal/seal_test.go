package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"waybill.dev/shared/seal"
)

func ring(t *testing.T, keys ...string) *seal.Keyring {
	t.Helper()
	k, err := seal.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpensWhereItWasSealed(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.Generate())
	for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("secret "), 1000)} {
		sealed := k.Seal(plain, []byte("webhooks|secret|1|default"))
		if len(plain) > 1 && bytes.Contains(sealed, plain) {
			t.Fatal("plain text shows in the sealed value")
		}
		got, err := k.Open(sealed, []byte("webhooks|secret|1|default"))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Open = %q, %v; want %q", got, err, plain)
		}
	}
}

func TestSealsOfOneValueDiffer(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.Generate())
	if bytes.Equal(k.Seal([]byte("a"), nil), k.Seal([]byte("a"), nil)) {
		t.Fatal("two seals are equal: the nonce repeats")
	}
}

func TestSwappedRowsDoNotOpen(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.Generate())
	one, two := []byte("webhooks|secret|1|acme"), []byte("webhooks|secret|2|acme")
	if _, err := k.Open(k.Seal([]byte("s"), one), two); !errors.Is(err, seal.ErrBroken) {
		t.Fatalf("Open with another row's data: %v, want ErrBroken", err)
	}
}

func TestEveryChangedBitIsNoticed(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.Generate())
	sealed := k.Seal([]byte("secret"), []byte("row"))
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if _, err := k.Open(changed, []byte("row")); err == nil {
				t.Fatalf("byte %d bit %d changed, still opens", i, bit)
			}
		}
	}
	for n := range sealed {
		if _, err := k.Open(sealed[:n], []byte("row")); err == nil {
			t.Fatalf("cut to %d bytes, still opens", n)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	old, fresh := seal.Generate(), seal.Generate()
	before, during, after := ring(t, old), ring(t, fresh, old), ring(t, fresh)
	sealed := before.Seal([]byte("secret"), []byte("row"))
	if got, err := during.Open(sealed, []byte("row")); err != nil || string(got) != "secret" {
		t.Fatalf("Open under the second key = %q, %v", got, err)
	}
	again := during.Seal([]byte("secret"), []byte("row"))
	if got, err := after.Open(again, []byte("row")); err != nil || string(got) != "secret" {
		t.Fatalf("Open once the old key is gone = %q, %v", got, err)
	}
	if _, err := after.Open(sealed, []byte("row")); !errors.Is(err, seal.ErrUnknownKey) {
		t.Fatalf("Open without its key: %v, want ErrUnknownKey", err)
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	a, b := seal.Generate(), seal.Generate()
	both := ring(t, a, b).Derive("keys")
	if len(both) != 2 || len(both[0]) != 32 || bytes.Equal(both[0], both[1]) {
		t.Fatal("want two different keys of 32 bytes")
	}
	if !bytes.Equal(both[1], ring(t, b).Derive("keys")[0]) {
		t.Error("a derived key depends on the ring's other keys")
	}
	if bytes.Equal(both[0], ring(t, a).Derive("bus")[0]) {
		t.Error("two purposes have one key")
	}
}

func TestMalformedKeysAreNamedNotShown(t *testing.T) {
	t.Parallel()
	good := seal.Generate()
	rows := map[string]struct{ text, want string }{
		"empty":           {"", "key 1 of 1: it is empty"},
		"empty second":    {good + ",", "key 2 of 2: it is empty"},
		"not base64":      {"hunter2-hunter2!", "it is not base64"},
		"short":           {base64.StdEncoding.EncodeToString([]byte("hunter2")), "it has 7 bytes, want 32"},
		"long":            {base64.StdEncoding.EncodeToString(make([]byte, 33)), "it has 33 bytes"},
		"wrong separator": {good + ";" + seal.Generate(), "it is not base64"},
		"second wrong":    {good + ", hunter2-hunter2!", "key 2 of 2"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := seal.Parse(row.text)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("error %v, want one with %q", err, row.want)
			}
			for part := range strings.FieldsFuncSeq(row.text, func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
				if strings.Contains(err.Error(), part) {
					t.Fatalf("error shows a key: %v", err)
				}
			}
		})
	}
}

func TestParseTakesSpacesAndMissingPadding(t *testing.T) {
	t.Parallel()
	key := seal.Generate()
	sealed := ring(t, key).Seal([]byte("s"), nil)
	if _, err := ring(t, "  "+strings.TrimRight(key, "=")+"\n").Open(sealed, nil); err != nil {
		t.Fatal(err)
	}
}

func TestKeyringPrintsNothing(t *testing.T) {
	t.Parallel()
	key := seal.Generate()
	k := ring(t, key)
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "k", k)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %x", k, k, k, k, k), log.String()} {
		for _, leak := range []string{key, string(raw), hex.EncodeToString(raw), fmt.Sprintf("%d", raw[0:3])} {
			if strings.Contains(text, strings.Trim(leak, "[]")) {
				t.Fatalf("the keyring shows its key: %s", text)
			}
		}
	}
}

// A ring for one purpose opens nothing of another's, and what an older key of its own has sealed.
func TestFor(t *testing.T) {
	t.Parallel()
	older, newer := seal.Generate(), seal.Generate()
	sealed := ring(t, older).For("cookies").Seal([]byte("x"), nil)
	if plain, err := ring(t, newer, older).For("cookies").Open(sealed, nil); err != nil || string(plain) != "x" {
		t.Errorf("%q, %v", plain, err)
	}
	for name, other := range map[string]*seal.Keyring{"the ring": ring(t, older), "another purpose": ring(t, older).For("links"), "other keys": ring(t, newer).For("cookies")} {
		if _, err := other.Open(sealed, nil); !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
