package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/signature"
)

// The key pair of the test vectors for v1a that implementations of Standard Webhooks share.
const (
	privateKey = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	publicKey  = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
)

func private(tb testing.TB, text string) signature.PrivateKey {
	tb.Helper()
	key, err := signature.ParsePrivateKey(text)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func public(tb testing.TB, text string) signature.Key {
	tb.Helper()
	key, err := signature.ParseKey(text)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func TestAsymmetricVectors(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, id string
		unix     int64
		body     string
		want     string
	}{
		{
			"V3", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, `{"test": 2432232314}`,
			"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
		},
		{
			"V4a", "evt_01J0000000000000000000000A", 1768469400,
			`{"type":"shipment.delivered","timestamp":"2026-01-15T09:30:00Z","data":{"shipment_id":"shp_01"}}`,
			"v1a,xSXCHRGJK+acYsjouirgS/31EMXoVlJL3XnQizlxG7uIezDa1a7awBRtgmH12EE3QqmTUcivD839uZ0EckGyAw==",
		},
	}
	key := private(t, privateKey)
	if key.Reveal() != privateKey || signature.FormatPublicKey(key.Public()) != publicKey {
		t.Fatalf("the keys' text is %s, %s", key.Reveal(), signature.FormatPublicKey(key.Public()))
	}
	for _, row := range rows {
		at := time.Unix(row.unix, 999)
		got := signature.SignAsymmetric([]signature.PrivateKey{key}, row.id, at, []byte(row.body))
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if err := signature.Verify(headers(row.id, row.unix, got), []byte(row.body), at, public(t, publicKey)); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// A signature is what crypto/ed25519 makes of the text that the specification names, and is
// checked by it.
func TestAsymmetricIsEd25519OfTheSpecifiedText(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		own, other := signature.NewPrivateKey(), signature.NewPrivateKey()
		id, body, at := fmt.Sprintf("evt_%d", i), bytes.Repeat([]byte{byte(i)}, i*97), time.Unix(1768469400+int64(i), 0)
		header := signature.SignAsymmetric([]signature.PrivateKey{own, other}, id, at, body)
		parts := strings.Split(header, " ")
		if len(parts) != 2 {
			t.Fatalf("header %q", header)
		}
		for j, key := range []signature.PrivateKey{own, other} {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[j], "v1a,"))
			if err != nil {
				t.Fatal(err)
			}
			text := append(fmt.Appendf(nil, "%s.%d.", id, at.Unix()), body...)
			if !ed25519.Verify(key.Public(), text, sum) {
				t.Fatalf("signature %d does not verify", j)
			}
		}
	}
}

func TestAsymmetricVerify(t *testing.T) {
	t.Parallel()
	const id, unix = "evt_1", int64(1768469400)
	body, at := []byte(`{"a":1}`), time.Unix(1768469400, 0)
	own, other := signature.NewPrivateKey(), signature.NewPrivateKey()
	pub := public(t, signature.FormatPublicKey(own.Public()))
	secret := parse(t, secretA)[0]
	good := signature.SignAsymmetric([]signature.PrivateKey{own}, id, at, body)
	foreign := signature.SignAsymmetric([]signature.PrivateKey{other}, id, at, body)
	v1 := signature.NewSigner(secret).Sign(id, at, body)
	sum := strings.TrimPrefix(good, "v1a,")
	rows := map[string]struct {
		header string
		keys   []signature.Key
		want   error
		detail string
	}{
		"good":                         {good, []signature.Key{pub}, nil, "matches public key 1 of 1"},
		"both, by the public key":      {v1 + " " + good, []signature.Key{pub}, nil, "signature 2 of 2"},
		"both, by the secret":          {v1 + " " + good, []signature.Key{secret}, nil, "signature 1 of 2"},
		"in an overlap":                {foreign + " " + good, []signature.Key{pub}, nil, "signature 2 of 2"},
		"one key of several":           {good, []signature.Key{secret, pub}, nil, "public key 2 of 2"},
		"another's":                    {foreign, []signature.Key{pub}, signature.ErrNoMatch, "another secret or key"},
		"v1a, but only a secret":       {good, []signature.Key{secret}, signature.ErrNoMatch, "by v1a alone"},
		"v1, but only a public key":    {v1, []signature.Key{pub}, signature.ErrNoMatch, "by v1 alone"},
		"named v1":                     {"v1," + sum, []signature.Key{pub}, signature.ErrNoMatch, ""},
		"cut":                          {good[:len(good)-4], []signature.Key{pub}, signature.ErrNoMatch, ""},
		"empty":                        {"v1a,", []signature.Key{pub}, signature.ErrNoMatch, ""},
		"HMAC under the public key":    {hmacUnderPublic(t, own, id, at, body), []signature.Key{pub}, signature.ErrNoMatch, ""},
		"a line break within":          {"v1a," + sum[:40] + "\n" + sum[40:], []signature.Key{pub}, signature.ErrNoMatch, ""},
		"the good one of many unknown": {"v9,x junk " + good, []signature.Key{pub}, nil, "matches public key"},
	}
	for name, row := range rows {
		err := signature.Verify(headers(id, unix, row.header), body, at, row.keys...)
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
		steps := signature.VerifySteps(headers(id, unix, row.header), body, at, row.keys...)
		if last := steps[len(steps)-1]; last.OK != (row.want == nil) || !strings.Contains(last.Detail, row.detail) {
			t.Errorf("%s: %+v", name, last)
		}
	}
	if err := signature.Verify(headers(id, unix, good), append(body, '\n'), at, pub); !errors.Is(err, signature.ErrNoMatch) {
		t.Errorf("another body: %v", err)
	}
	steps := signature.VerifySteps(headers(id, unix, good), append(body, '\n'), at, pub)
	if !strings.Contains(steps[len(steps)-1].Detail, "line break") {
		t.Errorf("a line break was added: %+v", steps)
	}
}

// hmacUnderPublic is what somebody signs who knows the public key and takes it for a secret.
func hmacUnderPublic(tb testing.TB, key signature.PrivateKey, id string, at time.Time, body []byte) string {
	tb.Helper()
	secret := parse(tb, "whsec_"+base64.StdEncoding.EncodeToString(key.Public()))
	return signature.NewSigner(secret...).Sign(id, at, body)
}

func TestAsymmetricKeys(t *testing.T) {
	t.Parallel()
	raw := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"no prefix": strings.TrimPrefix(privateKey, "whsk_"), "public": publicKey, "secret": secretA,
		"the seed alone": "whsk_" + raw(make([]byte, 32)), "halves of two keys": "whsk_" + raw(make([]byte, 64)),
		"not base64": "whsk_!", "a line break": privateKey[:20] + "\n" + privateKey[20:], "empty": "",
	} {
		if _, err := signature.ParsePrivateKey(text); !errors.Is(err, signature.ErrSecret) {
			t.Errorf("%s as a private key: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"31 bytes": "whpk_" + raw(make([]byte, 31)), "33 bytes": "whpk_" + raw(make([]byte, 33)), "unpadded": strings.TrimRight(publicKey, "="),
		"private": privateKey, "prefix alone": "whpk_",
	} {
		if _, err := signature.ParseKey(text); !errors.Is(err, signature.ErrSecret) {
			t.Errorf("%s as a receiver's key: %v", name, err)
		}
	}
	key := private(t, privateKey)
	for _, shown := range []string{fmt.Sprint(key), fmt.Sprintf("%#v", key), fmt.Sprintf("%x", key), key.LogValue().String()} {
		if shown != "[redacted]" {
			t.Errorf("a private key prints as %s", shown)
		}
	}
	if !public(t, publicKey).Equal(public(t, publicKey)) || public(t, publicKey).Equal(parse(t, secretA)[0]) {
		t.Error("equality of keys")
	}
}

func BenchmarkSignAsymmetric(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	keys := []signature.PrivateKey{private(b, privateKey)}
	at := time.Unix(1768469400, 0)
	b.ReportAllocs()
	for b.Loop() {
		signature.SignAsymmetric(keys, "evt_01J0000000000000000000000A", at, body)
	}
}
