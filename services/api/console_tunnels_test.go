package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// Tunnels are made, configured, given other tokens and deleted on pages. A token is shown once.
func TestConsoleTunnels(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	b.get("/console/tunnels").want(t, http.StatusOK, "").has(t, "No tunnels yet", "New tunnel", "waybill tunnels create warehouse")
	b.post("/console/tunnels", "name", "x").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	made := b.post("/console/tunnels", "name", "warehouse").want(t, http.StatusOK, "").has(t, "Copy the token now")
	token := wholeToken.FindString(made.body)
	if token == "" {
		t.Fatal("no token is shown")
	}
	id := r.do(http.MethodGet, tunnelsPath, "").want(http.StatusOK).items("data")[0]["id"].(string) //nolint:forcetypeassert // the document says so
	at := "/console/tunnels/" + id
	page := b.get(at).want(t, http.StatusOK, "").has(t, "warehouse", "inactive", "No agent is connected", "****"+token[len(token)-8:])
	b.post(at, "document", "{").want(t, http.StatusBadRequest, "").has(t, "must be JSON")
	b.post(at, "document", `{"version":1}`).want(t, http.StatusBadRequest, "")
	b.post(at, "document", ordersOnly).want(t, http.StatusSeeOther, at)
	b.get(at).want(t, http.StatusOK, "").has(t, "service://orders", "http://10.0.0.7:3000/base", "The configuration holds.")
	b.get(at+"/rotate").want(t, http.StatusOK, "").has(t, "another token?")
	rotated := wholeToken.FindString(b.post(at+"/rotate").want(t, http.StatusOK, "").body)
	if rotated == "" || rotated == token {
		t.Error("no other token is shown")
	}
	if strings.Contains(page.body+r.logs.String(), token) || strings.Contains(r.logs.String(), rotated) {
		t.Error("a page or the log has a token")
	}
	b.get(at+"/delete").want(t, http.StatusOK, "").has(t, "Delete warehouse?")
	b.post(at+"/delete").want(t, http.StatusSeeOther, "/console/tunnels")
	b.get(at).want(t, http.StatusNotFound, "")
	stranger := r.browser().signIn(r.secondAccount("second"))
	theirs, _ := r.theirTunnel()
	stranger.get("/console/tunnels").want(t, http.StatusOK, "").has(t, "No tunnels yet")
	stranger.get("/console/tunnels/"+theirs).want(t, http.StatusNotFound, "")
}
