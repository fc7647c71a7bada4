package signature_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"waybill.dev/shared/signature"
)

const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func parse(tb testing.TB, secrets ...string) []signature.Key {
	tb.Helper()
	keys := make([]signature.Key, len(secrets))
	for i, s := range secrets {
		var err error
		if keys[i], err = signature.ParseSecret(s); err != nil {
			tb.Fatal(err)
		}
	}
	return keys
}

// headers returns those of a callback that was signed at the given second.
func headers(id string, unix int64, sig string) http.Header {
	h := http.Header{}
	h.Set(signature.HeaderID, id)
	h.Set(signature.HeaderTimestamp, strconv.FormatInt(unix, 10))
	h.Set(signature.HeaderSignature, sig)
	return h
}

func TestVectors(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, id string
		secrets  []string
		unix     int64
		body     string
		want     string
	}{
		{
			"V1", "msg_p5jXN8AQM9LWM0D4loKWxJek", []string{secretA}, 1614265330,
			`{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		},
		{
			"V2", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", []string{secretB}, 1649367553,
			`{"email":"test@example.com","username":"test_user"}`, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
		},
		{
			"V4", "evt_01J0000000000000000000000A", []string{secretA, secretB}, 1768469400,
			`{"type":"shipment.delivered","timestamp":"2026-01-15T09:30:00Z","data":{"shipment_id":"shp_01"}}`,
			"v1,JtDJh1lMUw64/16EMS7t+VeXc+W1rn+CE9/6H2WmNPo= v1,jmhyNmO7ewAzNc97WtInE/y3C/LXFeSiUv5KiiHxw2U=",
		},
		{
			"V5", "evt_01J0000000000000000000000B", []string{secretA}, 1768469400,
			`{"city":"Zürich","note":"naïve ✓"}`, "v1,Y5lUqvKEcctZTtRP1KQyEwky9LUcZXADleS/3nlK9F8=",
		},
		{
			"V6", "evt_01J0000000000000000000000C", []string{secretA}, 1768469400,
			"", "v1,DD3J3BrzE2i0flzf+BB5hSZTpuun3eD2AY6L5RxTEJA=",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			keys := parse(t, row.secrets...)
			at := time.Unix(row.unix, 999)
			got := signature.NewSigner(keys...).Sign(row.id, at, []byte(row.body))
			if got != row.want {
				t.Fatalf("Sign = %s, want %s", got, row.want)
			}
			for _, key := range keys {
				if err := signature.Verify(headers(row.id, row.unix, got), []byte(row.body), at, key); err != nil {
					t.Errorf("Verify: %v", err)
				}
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	const id, unix = "msg_1", int64(1768469400)
	body := []byte(`{"a":1}`)
	keys := parse(t, secretA)
	good := signature.NewSigner(keys...).Sign(id, time.Unix(unix, 0), body)
	with := func(name string, values ...string) http.Header {
		h := headers(id, unix, good)
		delete(h, http.CanonicalHeaderKey(name))
		for _, v := range values {
			h.Add(name, v)
		}
		return h
	}
	rows := map[string]struct {
		header http.Header
		now    int64
		want   error
	}{
		"no id":                 {with(signature.HeaderID), unix, signature.ErrMissingHeader},
		"no timestamp":          {with(signature.HeaderTimestamp), unix, signature.ErrMissingHeader},
		"no signature":          {with(signature.HeaderSignature), unix, signature.ErrMissingHeader},
		"empty signature":       {with(signature.HeaderSignature, ""), unix, signature.ErrMissingHeader},
		"id twice":              {with(signature.HeaderID, id, id), unix, signature.ErrMalformedHeader},
		"wrong signature":       {with(signature.HeaderSignature, "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="), unix, signature.ErrNoMatch},
		"part of a signature":   {with(signature.HeaderSignature, "v1,"), unix, signature.ErrNoMatch},
		"no version":            {with(signature.HeaderSignature, strings.TrimPrefix(good, "v1,")), unix, signature.ErrNoMatch},
		"another version":       {with(signature.HeaderSignature, "v2"+strings.TrimPrefix(good, "v1")), unix, signature.ErrNoMatch},
		"unpadded":              {with(signature.HeaderSignature, strings.TrimSuffix(good, "=")), unix, signature.ErrNoMatch},
		"another id":            {with(signature.HeaderID, "msg_2"), unix, signature.ErrNoMatch},
		"another timestamp":     {with(signature.HeaderTimestamp, "1768469401"), unix, signature.ErrNoMatch},
		"timestamp a float":     {with(signature.HeaderTimestamp, "1768469400.0"), unix, signature.ErrMalformedHeader},
		"timestamp negative":    {with(signature.HeaderTimestamp, "-1"), unix, signature.ErrMalformedHeader},
		"timestamp with a plus": {with(signature.HeaderTimestamp, "+1768469400"), unix, signature.ErrMalformedHeader},
		"timestamp beyond int":  {with(signature.HeaderTimestamp, "99999999999999999999"), unix, signature.ErrMalformedHeader},
		"5 min 1 s old":         {with(""), unix + 301, signature.ErrTimestampTooOld},
		"5 min 1 s ahead":       {with(""), unix - 301, signature.ErrTimestampTooNew},
		"5 min old":             {with(""), unix + 300, nil},
		"5 min ahead":           {with(""), unix - 300, nil},
		"one good among others": {with(signature.HeaderSignature, "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,xyz "+good), unix, nil},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := signature.Verify(row.header, body, time.Unix(row.now, 0), keys...)
			if !errors.Is(err, row.want) {
				t.Fatalf("Verify = %v, want %v", err, row.want)
			}
			fine := true
			for _, step := range signature.VerifySteps(row.header, body, time.Unix(row.now, 0), keys...) {
				fine = fine && step.OK
				if step.Detail == "" {
					t.Errorf("step %s says nothing", step.Name)
				}
			}
			if fine != (err == nil) {
				t.Errorf("all steps fine: %v, though Verify = %v", fine, err)
			}
		})
	}
	if err := signature.Verify(headers(id, unix, good), []byte(`{"a":2}`), time.Unix(unix, 0), keys...); !errors.Is(err, signature.ErrNoMatch) {
		t.Errorf("Verify with another body = %v", err)
	}
	if err := signature.Verify(headers(id, unix, good), body, time.Unix(unix, 0)); !errors.Is(err, signature.ErrNoMatch) {
		t.Errorf("Verify without a key = %v", err)
	}
}

func TestStepsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	const id, unix = "msg_1", int64(1768469400)
	body := []byte(`{"a":1}`)
	keys := parse(t, secretB, secretA)
	header := headers(id, unix, "v9,x junk "+signature.NewSigner(keys[1]).Sign(id, time.Unix(unix, 0), body))
	now := time.Unix(unix+400, 0)
	steps := signature.VerifySteps(header, body, now, keys...)
	want := []signature.Step{
		{Name: signature.HeaderID, OK: true, Detail: "the id of the event, the same on every attempt"},
		{Name: signature.HeaderTimestamp, Detail: "timestamp too old: it is 400 s old, 300 s are tolerated"},
		{Name: signature.HeaderSignature, OK: true, Detail: "1 of version v1, 1 of another version (skipped), 1 malformed (skipped)"},
		{Name: "signature of id.timestamp.body", OK: true, Detail: "signature 1 of 1 matches secret 2 of 2"},
	}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Fatalf("steps\n%v\nwant\n%v", steps, want)
	}
	last := func(steps []signature.Step) string { return steps[len(steps)-1].Detail }
	if got := last(signature.VerifySteps(header, append(bytes.Clone(body), '\n'), now, keys...)); !strings.Contains(got, "line break") {
		t.Errorf("body with a line break added: %q", got)
	}
	if got := last(signature.VerifySteps(header, body, now, keys[0])); !strings.Contains(got, "another secret") {
		t.Errorf("another secret: %q", got)
	}
	if got := last(signature.VerifySteps(header, body, now)); !strings.Contains(got, "no secret") {
		t.Errorf("no secret: %q", got)
	}
	header.Del(signature.HeaderID)
	if got := last(signature.VerifySteps(header, body, now, keys...)); !strings.Contains(got, "not checked") {
		t.Errorf("missing id: %q", got)
	}
}

// The reference library and this package take each other's signatures.
func TestReferenceLibraryAgrees(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		raw := make([]byte, 24+random.IntN(41))
		body := make([]byte, random.IntN(3000))
		for _, b := range [][]byte{raw, body} {
			for j := range b {
				b[j] = byte(random.Uint32())
			}
		}
		secret := "whsec_" + base64.StdEncoding.EncodeToString(raw)
		id := fmt.Sprintf("evt_%d", i)
		now := time.Now()
		reference, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		keys := parse(t, secretA, secret)
		ours := signature.NewSigner(keys...).Sign(id, now, body)
		if err := reference.Verify(body, headers(id, now.Unix(), ours)); err != nil {
			t.Fatalf("reference library refuses our signature: %v", err)
		}
		theirs, err := reference.Sign(id, now, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := signature.Verify(headers(id, now.Unix(), theirs), body, now, keys...); err != nil {
			t.Fatalf("we refuse the reference library's signature: %v", err)
		}
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	good := map[string]string{"24 bytes": "whsec_" + encode(24), "64 bytes": "whsec_" + encode(64), "known": secretB}
	for name, text := range good {
		if _, err := signature.ParseSecret(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := signature.ParseKey(strings.TrimPrefix(text, "whsec_")); err != nil {
			t.Errorf("%s without its prefix, as a receiver: %v", name, err)
		}
	}
	bad := map[string]string{
		"empty": "", "prefix only": "whsec_", "no prefix": encode(32), "23 bytes": "whsec_" + encode(23),
		"65 bytes": "whsec_" + encode(65), "unpadded": strings.TrimRight("whsec_"+encode(32), "="),
		"line break": "whsec_" + encode(24)[:8] + "\n" + encode(24)[8:], "stray bits": "whsec_" + encode(31)[:42] + "B=",
		"url alphabet": "whsec_" + strings.Repeat("-_-_", 10), "upper-case prefix": "WHSEC_" + encode(32), "space": "whsec_ " + encode(32),
		"private key": "whsk_" + encode(64), "twice": "whsec_whsec_" + encode(32),
	}
	for name, text := range bad {
		_, err := signature.ParseSecret(text)
		if !errors.Is(err, signature.ErrSecret) {
			t.Errorf("%s: error %v, want ErrSecret", name, err)
		} else if body := strings.TrimPrefix(text, "whsec_"); len(body) > 6 && strings.Contains(err.Error(), body) {
			t.Errorf("%s: error shows the secret", name)
		}
	}
}

func TestKeyPrintsNothing(t *testing.T) {
	t.Parallel()
	key := parse(t, secretA)[0]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, key); got != "[redacted]" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestSignerIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	signer := signature.NewSigner(parse(t, secretA, secretB)...)
	at, body := time.Unix(1768469400, 0), bytes.Repeat([]byte("x"), 500)
	want := signer.Sign("id", at, body)
	done := make(chan string)
	for range 8 {
		go func() {
			got := want
			for range 200 {
				if s := signer.Sign("id", at, body); s != want {
					got = s
				}
			}
			done <- got
		}()
	}
	for range 8 {
		if got := <-done; got != want {
			t.Fatalf("Sign = %s, want %s", got, want)
		}
	}
}

// Whatever a header has, only the signature itself is taken, and nothing panics.
func FuzzSignatureHeader(f *testing.F) {
	key, err := signature.ParseSecret(secretA)
	if err != nil {
		f.Fatal(err)
	}
	const id, unix = "msg_1", int64(1768469400)
	body := []byte(`{"a":1}`)
	good := signature.NewSigner(key).Sign(id, time.Unix(unix, 0), body)
	for _, seed := range []string{good, "v1," + strings.Repeat("A", 43) + "=", "v1,", ",", " ", "v1a,x v2,y " + good, good + "\x00", "v1,\n" + good[4:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		header := headers(id, unix, text)
		err := signature.Verify(header, body, time.Unix(unix, 0), key)
		listed := false
		for part := range strings.SplitSeq(text, " ") {
			listed = listed || part == good
		}
		if (err == nil) != listed {
			t.Fatalf("Verify = %v with header %q", err, text)
		}
		steps := signature.VerifySteps(header, body, time.Unix(unix, 0), key)
		if steps[len(steps)-1].OK != (err == nil) {
			t.Fatalf("steps and Verify disagree on %q", text)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	at := time.Unix(1768469400, 0)
	signer := signature.NewSigner(parse(b, secretA)...)
	b.Run("waybill", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			signer.Sign("evt_01J0000000000000000000000A", at, body)
		}
	})
	b.Run("reference", func(b *testing.B) {
		reference, err := standardwebhooks.NewWebhook(secretA)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reference.Sign("evt_01J0000000000000000000000A", at, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
