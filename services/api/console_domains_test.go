package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Domains are added, given certificates and removed on pages. A key that was typed is on no page.
func TestConsoleDomains(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	b.get("/console/domains").want(t, http.StatusOK, "").has(t, "No custom domains yet", "waybill domains create")
	b.post("/console/domains", "hostname", "localhost").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	b.post("/console/domains", "hostname", "api.example.org").want(t, http.StatusSeeOther, "/console/domains")
	b.get("/console/domains").want(t, http.StatusOK, "").has(t, "api.example.org", "It leads to no deployment")
	good := certify(t, freshKey(), "api.example.org", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	refused := b.post("/console/domains/certificate", "hostname", "api.example.org", "certificate", "x", "privateKey", good.key).want(t, http.StatusBadRequest, "")
	if secret := strings.Split(good.key, "\n")[1]; strings.Contains(refused.body+r.logs.String(), secret) {
		t.Error("a page or the log has the key")
	}
	b.post("/console/domains/certificate", "hostname", "api.example.org", "certificate", good.chain, "privateKey", good.key).want(t, http.StatusSeeOther, "/console/domains")
	b.get("/console/domains").want(t, http.StatusOK, "").has(t, "Remove the certificate")
	b.get("/console/problems").want(t, http.StatusOK, "").has(t, "Certificate of a custom domain", "api.example.org")
	b.get("/console/domains/certificate/delete?hostname=api.example.org").want(t, http.StatusOK, "").has(t, "Remove the certificate of api.example.org?", "Certificate until")
	b.post("/console/domains/certificate/delete", "hostname", "api.example.org").want(t, http.StatusSeeOther, "/console/domains")
	b.get("/console/domains/delete?hostname=api.example.org").want(t, http.StatusOK, "").has(t, "Remove api.example.org?", "answered with 404", `name="hostname" value="api.example.org"`)
	b.get("/console/domains/delete?hostname=other.example.org").want(t, http.StatusSeeOther, "/console/domains")
	b.post("/console/domains/delete", "hostname", "api.example.org").want(t, http.StatusSeeOther, "/console/domains")
	b.get("/console/domains").want(t, http.StatusOK, "").has(t, "No custom domains yet")
}
