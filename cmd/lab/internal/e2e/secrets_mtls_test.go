package e2e_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// clientKey is a private key that a webhook shows its receiver a certificate with.
func (v *vault) clientKey(authority *receiverauthtest.Authority) (certificate, key string) {
	v.Helper()
	certificate, key = authority.Issue(v, "shop-at-receiver", time.Now().Add(time.Hour))
	block, _ := pem.Decode([]byte(key))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		v.Fatal(err)
	}
	own, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		v.Fatalf("the key is a %T", parsed)
	}
	secret, err := own.Bytes()
	if err != nil {
		v.Fatal(err)
	}
	v.secrets[string(secret)] = "a private key of a webhook"
	v.secrets[hex.EncodeToString(secret)] = "a private key of a webhook in hex"
	// Of the PEM only what belongs to the secret number: all keys begin alike, and what stands behind it is the
	// public key. A line's end may be written in several ways.
	lines := strings.Split(key, "\n")
	v.secrets[lines[1][48:]] = "a private key of a webhook, its first line"
	v.secrets[lines[2][:24]] = "a private key of a webhook, its second line"
	return certificate, key
}

// certified has webhooks with certificates, whose receivers take them, refuse them, or are others than they
// should be, and has such certificates refused. It returns one that is used nowhere.
func (v *vault) certified() map[string]string {
	v.Helper()
	mine, other := receiverauthtest.New(v), receiverauthtest.New(v)
	receiver := func(of *receiverauthtest.Authority) (url string, seen *atomic.Int64) {
		seen = new(atomic.Int64)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			seen.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		}))
		server.TLS = of.Server(v)
		server.StartTLS()
		v.Cleanup(server.Close)
		return server.URL, seen
	}
	auth := func() string {
		certificate, key := v.clientKey(mine)
		return fmt.Sprintf(`{"type":"mtls","certificate":%q,"privateKey":%q,"ca":%q}`, certificate, key, mine.PEM)
	}
	right, seen := receiver(mine)
	wrong, never := receiver(other)
	for _, url := range []string{right, wrong} {
		a, _ := v.reveal(http.MethodPost, "/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["shipment.exception"],"retryScheduleSeconds":[0.05],"auth":%s}`, url, auth()))
		path := "/v1/webhooks/" + v.idOf(a)
		v.ask(http.MethodPost, path+"/test", `{}`)
		v.ask(http.MethodPatch, path, `{"auth":`+auth()+`}`)
		v.ask(http.MethodPost, path+"/test", `{}`)
		for _, below := range []string{"", "/health"} {
			v.ask(http.MethodGet, path+below, "")
		}
		certificate, key := v.clientKey(mine)
		foreign, _ := v.clientKey(other)
		for _, broken := range []string{
			fmt.Sprintf(`{"type":"mtls","certificate":%q,"privateKey":%q}`, foreign, key),           // of another certificate
			fmt.Sprintf(`{"type":"mtls","certificate":%q,"privateKey":%q}`, key, certificate),       // the wrong way round
			fmt.Sprintf(`{"type":"mtls","certificate":%q,"privateKey":%q}`, certificate, key[:150]), // cut off
			fmt.Sprintf(`{"type":"mtls","certificate":%q,"privateKey":%q,"ca":%[2]q}`, certificate, key),
			fmt.Sprintf(`{"type":"bearer","token":%q}`, key), // with its ends of lines
			fmt.Sprintf(`{"type":%q}`, key),
			fmt.Sprintf(`{%q:1}`, key),
		} {
			v.refused(v.api, http.MethodPatch, path, `{"auth":`+broken+`}`, nil)
		}
		v.refused(v.api, http.MethodPatch, path, `{"url":"http://127.0.0.1:9/"}`, nil)
	}
	v.await("a handshake with the certificate", patience, func() bool { return seen.Load() > 0 })
	if never.Load() > 0 {
		v.Error("a receiver of another authority was sent something")
	}
	certificate, key := v.clientKey(mine)
	return map[string]string{"certificate": certificate, "privateKey": key}
}
