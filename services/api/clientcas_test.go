package api_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/certificate"
	"waybill.dev/shared/certificate/certificatetest"
)

const casPath = "/v1/accounts/default/client-mtls-ca-certificates"

// caBody is the body that uploads a text as a certificate.
func caBody(t *testing.T, name, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"name": name, "certificate": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// theirCA uploads a CA certificate to the default account.
func (r *rig) theirCA() (id string) {
	r.t.Helper()
	body := caBody(r.t, "theirs", certificatetest.NewCA(r.t, "Theirs", nil).PEM())
	return r.do(http.MethodPost, casPath, body).want(http.StatusCreated).text("id")
}

// walkedCA does the same, unless there is one.
func (w *walker) walkedCA() string {
	w.t.Helper()
	if list := w.do(http.MethodGet, casPath, "").want(http.StatusOK).items("data"); len(list) > 0 {
		return fmt.Sprint(list[0]["id"])
	}
	body := caBody(w.t, "walked", certificatetest.NewCA(w.t, "Walked", nil).PEM())
	return w.do(http.MethodPost, casPath, body).want(http.StatusCreated).text("id")
}

// A CA certificate is uploaded, shown, renamed and deleted. Each change is in the audit log.
func TestClientCAs(t *testing.T) {
	t.Parallel()
	ca := certificatetest.NewCA(t, "Partner CA", func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: "Partner CA", Organization: []string{"Müller, Sons"}}
	})
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.do(http.MethodGet, casPath, "").want(http.StatusOK).field("data", []any{}).field("total", 0.0)
		made := r.do(http.MethodPost, casPath, caBody(t, "partners_$1", ca.PEM())).want(http.StatusCreated)
		made.fields("id", "name", "certificateInfo", "sha256Fingerprint", "createdOn", "updatedOn").field("sha256Fingerprint", certificate.Fingerprint(ca.Certificate))
		name := `CN=Partner CA,O=Müller\, Sons`
		made.field("certificateInfo", map[string]any{
			"subject": name, "issuer": name, "validFrom": stamp(ca.NotBefore), "validTo": stamp(ca.NotAfter), "serialNumber": certificate.Serial(ca.Certificate),
		})
		id := made.text("id")
		at := casPath + "/" + id
		if !strings.HasPrefix(id, "mtlsca_") || made.header.Get("Location") != at {
			t.Errorf("id %s, Location %q", id, made.header.Get("Location"))
		}
		r.do(http.MethodGet, at, "").want(http.StatusOK).field("name", "partners_$1")
		r.do(http.MethodPost, casPath, caBody(t, "partners_$1", ca.PEM())).want(http.StatusConflict).field("detail", "The account has a CA certificate of this name already.")
		r.do(http.MethodPost, casPath, caBody(t, "taken", ca.PEM())).want(http.StatusCreated)
		r.do(http.MethodPatch, at, `{"name":"taken"}`).want(http.StatusConflict)
		r.do(http.MethodPatch, at, `{}`).want(http.StatusOK).field("name", "partners_$1")
		r.do(http.MethodPatch, at, `{"name":"suppliers"}`).want(http.StatusOK).field("name", "suppliers").field("id", id)
		if list := r.do(http.MethodGet, casPath+"?limit=1", "").want(http.StatusOK).field("total", 2.0).field("limit", 1.0).items("data"); list[0]["name"] != "suppliers" {
			t.Errorf("listed: %v", list)
		}
		r.do(http.MethodDelete, at, "").want(http.StatusNoContent)
		r.do(http.MethodDelete, at, "").want(http.StatusNotFound)
		r.do(http.MethodGet, at, "").want(http.StatusNotFound)
		r.do(http.MethodPatch, at, `{"name":"x"}`).want(http.StatusNotFound)
		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK)
		for _, action := range []string{"create", "update", "delete"} {
			if !strings.Contains(string(log.body), `"`+action+`-client-mtls-ca-certificate"`) {
				t.Errorf("the audit log lacks %s", action)
			}
		}
	})
}

// Bodies are read strictly, and what is wrong with a certificate is said. A private key in it is
// refused and told nowhere.
func TestClientCABodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	for _, name := range []string{"", "1a", "a-b", "a b", "ä", strings.Repeat("a", 129)} {
		r.do(http.MethodPost, casPath, caBody(t, name, ca.PEM())).faults("/name")
	}
	r.do(http.MethodPost, casPath, caBody(t, strings.Repeat("a", 128), ca.PEM())).want(http.StatusCreated)
	r.do(http.MethodPost, casPath, `{"id":"x"}`).faults("/certificate", "/id", "/name")
	secret := "c2VjcmV0LXNlY3JldA"
	for what, text := range map[string]string{
		"empty": "", "no PEM": "x", "two": ca.PEM() + ca.PEM(), "leaf": ca.Issue(t, "till", nil).PEM(), "too long": ca.PEM() + strings.Repeat("\n", 16<<10),
		"ended": certificatetest.NewCA(t, "x", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }).PEM(),
		"a key": ca.PEM() + "-----BEGIN EC PRIVATE KEY-----\n" + secret + "\n-----END EC PRIVATE KEY-----\n",
		"DER":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(secret)})),
	} {
		a := r.do(http.MethodPost, casPath, caBody(t, "x", text)).faults("/certificate")
		if strings.Contains(string(a.body), secret) || strings.Contains(r.logs.String(), secret) {
			t.Errorf("%s: the answer or the log has the text: %s", what, a.body)
		}
	}
	at := casPath + "/" + r.theirCA()
	for _, body := range []string{`{"name":null}`, `{"name":"a-b"}`, `{"name":1}`} {
		r.do(http.MethodPatch, at, body).faults("/name")
	}
	r.do(http.MethodPatch, at, caBody(t, "x", ca.PEM())).faults("/certificate")
}

// An account has 50 CA certificates at most.
func TestClientCALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	ca := certificatetest.NewCA(t, "Partner CA", nil).PEM()
	for i := range 50 {
		r.do(http.MethodPost, casPath, caBody(t, fmt.Sprint("ca_", i), ca)).want(http.StatusCreated)
	}
	r.do(http.MethodPost, casPath, caBody(t, "more", ca)).want(http.StatusConflict).field("detail", "The account has 50 CA certificates. It can't have more.")
	second := r.secondAccount("second")
	r.do(http.MethodPost, strings.Replace(casPath, "default", "second", 1), caBody(t, "more", ca), as(second)).want(http.StatusCreated)
}

// CA certificates are uploaded, renamed and deleted on pages.
func TestConsoleCertificates(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	b := r.browser().signIn(adminKey)
	const list = "/console/certificates"
	b.get(list).want(t, http.StatusOK, "").has(t, "No CA certificates yet", "Upload a CA certificate", "waybill certificates create partners ca.pem")
	refused := b.post(list, "name", "a-b", "certificate", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n").want(t, http.StatusBadRequest, "").has(t, "aria-invalid", "private key")
	if strings.Contains(refused.body, "c2VjcmV0") {
		t.Error("the page shows the key again")
	}
	at := b.post(list, "name", "partners", "certificate", ca.PEM()).header.Get("Location")
	id := strings.TrimPrefix(at, list+"/")
	if !strings.HasPrefix(id, "mtlsca_") {
		t.Fatalf("uploaded, and led to %q", at)
	}
	b.get(list).want(t, http.StatusOK, "").has(t, "partners", "CN=Partner CA")
	b.get(at).want(t, http.StatusOK, "").has(t, "partners", "CN=Partner CA", certificate.Fingerprint(ca.Certificate), "waybill certificates get "+id)
	b.post(at, "name", "a-b").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	b.post(at, "name", "suppliers").want(t, http.StatusSeeOther, at)
	b.get(at+"/delete").want(t, http.StatusOK, "").has(t, "Delete suppliers?")
	b.post(at+"/delete").want(t, http.StatusSeeOther, list)
	b.get(at).want(t, http.StatusNotFound, "")
	theirs := r.theirCA()
	stranger := r.browser().signIn(r.secondAccount("second"))
	stranger.get(list).want(t, http.StatusOK, "").has(t, "No CA certificates yet")
	stranger.get(list+"/"+theirs).want(t, http.StatusNotFound, "")
}
