package certificate_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/certificate"
	"waybill.dev/shared/certificate/certificatetest"
)

// An authority must be one, with a key that is strong enough, and still good.
func TestAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good := certificatetest.NewCA(t, "Partners", nil)
	leaf := good.Issue(t, "till", nil)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"good":            {good.PEM(), nil},
		"with text":       {"Subject: CN=Partners\n" + good.PEM() + "\n", nil},
		"below another":   {good.NewCA(t, "Below").PEM(), nil},
		"not good yet":    {certificatetest.NewCA(t, "Early", func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }).PEM(), nil},
		"empty":           {"", certificate.ErrPEM},
		"no PEM":          {"certificate", certificate.ErrPEM},
		"DER":             {string(good.Raw), certificate.ErrPEM},
		"two":             {good.PEM() + good.PEM(), certificate.ErrPEM},
		"half of two":     {good.PEM() + "-----BEGIN CERTIFICATE-----\n", certificate.ErrPEM},
		"another kind":    {strings.ReplaceAll(good.PEM(), "CERTIFICATE", "CERTIFICATE REQUEST"), certificate.ErrPEM},
		"damaged":         {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Raw[:100]})), certificate.ErrPEM},
		"leaf":            {leaf.PEM(), certificate.ErrNoCA},
		"without usage":   {certificatetest.NewCA(t, "x", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }).PEM(), certificate.ErrKeyUsage},
		"ended":           {certificatetest.NewCA(t, "x", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }).PEM(), certificate.ErrEnded},
		"with its key":    {good.PEM() + key(t, "EC PRIVATE KEY"), certificate.ErrPrivateKey},
		"after a key":     {key(t, "PRIVATE KEY") + good.PEM(), certificate.ErrPrivateKey},
		"half a key":      {good.PEM() + "-----BEGIN RSA PRIVATE KEY-----", certificate.ErrPrivateKey},
		"RSA 2048":        {signed(t, rsaKey(t, 2048)), nil},
		"RSA 1024":        {signed(t, rsaKey(t, 1024)), certificate.ErrWeakKey},
		"P-224":           {signed(t, ecKey(t, elliptic.P224())), certificate.ErrWeakKey},
		"P-521":           {signed(t, ecKey(t, elliptic.P521())), nil},
		"Ed25519":         {signed(t, edKey(t)), nil},
		"no basic limits": {certificatetest.NewCA(t, "x", func(c *x509.Certificate) { c.BasicConstraintsValid, c.IsCA = false, false }).PEM(), certificate.ErrNoCA},
	} {
		got, err := certificate.Authority(c.text, now)
		if !errors.Is(err, c.want) || (got == nil) == (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func key(t *testing.T, kind string) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("secret")}))
}

// signed returns the certificate of an authority with the key.
func signed(t *testing.T, key crypto.Signer) string {
	t.Helper()
	root := certificatetest.NewCA(t, "root", nil)
	return root.IssueFor(t, "authority", key, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}).PEM()
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	ca := certificatetest.NewCA(t, "Partners", nil)
	var want []string
	for _, b := range sha256.Sum256(ca.Raw) {
		want = append(want, fmt.Sprintf("%02X", b))
	}
	if got := certificate.Fingerprint(ca.Certificate); got != strings.Join(want, ":") {
		t.Errorf("%s, want %s", got, strings.Join(want, ":"))
	}
}

// Names are as RFC 2253 has them, and as openssl x509 -nameopt RFC2253 prints them where
// everything is ASCII.
func TestName(t *testing.T) {
	t.Parallel()
	cn, o, ou := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}, asn1.ObjectIdentifier{2, 5, 4, 11}
	dc := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	one := func(id asn1.ObjectIdentifier, value any) pkix.RelativeDistinguishedNameSET {
		return pkix.RelativeDistinguishedNameSET{{Type: id, Value: value}}
	}
	for _, c := range []struct {
		name pkix.RDNSequence
		want string
	}{
		{nil, ""},
		{pkix.RDNSequence{one(asn1.ObjectIdentifier{2, 5, 4, 6}, "DE"), one(o, "Acme"), one(cn, "till 7")}, "CN=till 7,O=Acme,C=DE"},
		{pkix.RDNSequence{one(cn, "last"), one(o, "first")}, "O=first,CN=last"},
		{pkix.RDNSequence{one(dc, "com"), one(dc, "acme"), one(cn, "x")}, "CN=x,DC=acme,DC=com"},
		{pkix.RDNSequence{{{Type: cn, Value: "x"}, {Type: ou, Value: "y"}}}, "CN=x+OU=y"},
		{pkix.RDNSequence{one(o, `A, "B" \ <C>; D+E`)}, `O=A\, \"B\" \\ \<C\>\; D\+E`},
		{pkix.RDNSequence{one(o, " a "), one(ou, "#b"), one(cn, " ")}, `CN=\ ,OU=\#b,O=\ a\ `},
		{pkix.RDNSequence{one(cn, "a\r\nb\x00")}, `CN=a\0D\0Ab\00`},
		{pkix.RDNSequence{one(cn, "Müller")}, "CN=Müller"},
		{pkix.RDNSequence{one(cn, "a\u202eb")}, `CN=a\E2\80\AEb`},
		{pkix.RDNSequence{one(asn1.ObjectIdentifier{1, 2, 3}, "x")}, "1.2.3=#130178"},
		{pkix.RDNSequence{one(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, "a@b.c")}, "emailAddress=a@b.c"},
	} {
		raw, err := asn1.Marshal(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := certificate.Name(raw); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := certificate.Name([]byte{1, 2}); got != "#0102" {
		t.Error(got)
	}
	if got := certificate.ASCII("CN=Müller"); got != `CN=M\C3\BCller` {
		t.Error(got)
	}
}

// Case and blanks don't matter; the order of the parts does.
func TestSame(t *testing.T) {
	t.Parallel()
	const name = `CN=Partner CA,O=Müller\, Sons`
	for other, want := range map[string]bool{
		name:                                  true,
		`cn = partner ca, o = MÜLLER\, sons`:  true,
		`CN=Partner CA,O=M\C3\BCller\, Sons`:  true,
		`O=Müller\, Sons,CN=Partner CA`:       false,
		`CN=Partner CA,O=Müller, Sons`:        false,
		`CN=Partner CA`:                       false,
		``:                                    false,
		`CN=Partner CA\2CO=Müller\, Sons`:     false,
		`CN=Partner CA,O=M\c3\bcller\, Sons `: true,
	} {
		if got := certificate.Same(name, other); got != want {
			t.Errorf("%s: %t", other, got)
		}
	}
}
