package receiverauth_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

func TestAuthIsKeptAsItWas(t *testing.T) {
	t.Parallel()
	for _, want := range []receiverauth.Auth{
		{Type: receiverauth.Basic, Username: "a", Password: "<b>"},
		{Type: receiverauth.Bearer, Token: "t"},
		{Type: receiverauth.OAuth2, TokenURL: "https://x", ClientID: "i", ClientSecret: "s", Scope: "a b", Audience: "c"},
		{Type: receiverauth.MTLS, Certificate: "c\n", PrivateKey: "k", CA: "a"},
	} {
		kept, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := receiverauth.Decode(kept)
		if err != nil || *got != want {
			t.Errorf("%s: %v", want.Type, err)
		}
		for _, secret := range []domain.Secret{want.Password, want.Token, want.ClientSecret, want.PrivateKey} {
			if text := fmt.Sprintf("%v %+v %#v", want, want, want); secret != "" && strings.Contains(text, `"`+secret.Reveal()+`"`) {
				t.Errorf("%s prints its secret", want.Type)
			}
		}
	}
	for _, bad := range []domain.Secret{"", "canary", `{"type":"canary"}`, `{"type":1}`, `{}`} {
		if got, err := receiverauth.Decode(bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v, %v", bad.Reveal(), got, err)
		}
	}
}

func TestCertificatesAndKeys(t *testing.T) {
	t.Parallel()
	authority := receiverauthtest.New(t)
	ends := time.Now().Add(time.Hour)
	one, key := authority.Issue(t, "one", ends)
	_, other := authority.Issue(t, "two", ends)
	for name, text := range map[string]string{
		"none": "", "text": "canary", "a key": key, "with a key": one + key, "cut": one[:len(one)/2], "garbage": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})),
		"too many": strings.Repeat(one, 9), "a whole one and a cut one": one + one[:len(one)/2],
	} {
		if list, err := receiverauth.Certificates(text); !errors.Is(err, receiverauth.ErrCertificates) {
			t.Errorf("%s: %d, %v", name, len(list), err)
		}
	}
	if list, err := receiverauth.Certificates("# mine\n" + one + authority.PEM); err != nil || len(list) != 2 || list[0].Subject.CommonName != "one" {
		t.Errorf("%d, %v", len(list), err)
	}
	for want, text := range map[error]string{nil: key, receiverauth.ErrMismatch: other, receiverauth.ErrKey: string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}))} {
		of := receiverauth.Auth{Certificate: one, PrivateKey: domain.Secret(text)}
		if _, err := of.KeyPair(); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
