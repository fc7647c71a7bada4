package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

const tunnelsPath = "/v1/accounts/default/tunnels"

const ordersOnly = `{"version":1,"services":[{"name":"orders","endpoint":"http://10.0.0.7:3000/base","configurations":[{"project":"shop","accessibleBy":["production","working-copy"]}]}]}`

// theirTunnel makes a tunnel of the default account with a services configuration.
func (r *rig) theirTunnel() (id, operation string) {
	id = r.do(http.MethodPost, tunnelsPath, `{"name":"theirs"}`).want(http.StatusCreated).text("tunnelId")
	return id, r.do(http.MethodPut, tunnelsPath+"/"+id+"/services-configuration", ordersOnly).want(http.StatusOK).text("id")
}

// hash returns what a token is found by.
func (r *rig) hash(token string) []byte {
	r.t.Helper()
	hasher, err := authenticator.NewHasher(r.keys.Derive(tunnel.Purpose))
	if err != nil {
		r.t.Fatal(err)
	}
	return hasher.Hashes(token)[0]
}

var wholeToken = regexp.MustCompile(`wbt_[0-9A-Za-z]{32}_[0-9a-f]{8}`)

// A tunnel's token is shown when it is made and when it is rotated, and never again, by answers,
// logs or the audit log.
func TestTunnels(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.do(http.MethodGet, tunnelsPath, "").want(http.StatusOK).field("data", []any{}).field("total", 0.0)
		made := r.do(http.MethodPost, tunnelsPath, `{"name":"Warehouse-1"}`).want(http.StatusCreated)
		made.fields("tunnelId", "name", "token", "status", "connections", "createdOn", "updatedOn").field("status", "inactive").field("connections", []any{})
		id, token := made.text("tunnelId"), made.text("token")
		if !wholeToken.MatchString(token) || made.header.Get("Location") != tunnelsPath+"/"+id {
			t.Errorf("%s, Location %q", made.body, made.header.Get("Location"))
		}
		at := tunnelsPath + "/" + id
		r.do(http.MethodGet, at, "").want(http.StatusOK).field("token", "****"+token[len(token)-8:]).field("name", "Warehouse-1")
		r.do(http.MethodPost, tunnelsPath, `{"name":"Warehouse-1"}`).want(http.StatusConflict).field("detail", "The account has a tunnel of this name already.")
		item := r.do(http.MethodGet, tunnelsPath, "").want(http.StatusOK).field("total", 1.0).items("data")[0]
		if item["id"] != id || item["name"] != "Warehouse-1" || item["token"] != nil {
			t.Errorf("listed: %v", item)
		}
		rotated := r.do(http.MethodPost, at+"/$rotate-token", `{"overlapSeconds":3600}`).want(http.StatusOK).text("token")
		if !wholeToken.MatchString(rotated) || rotated == token {
			t.Error("the token is no other")
		}
		r.do(http.MethodGet, at, "").want(http.StatusOK).field("token", "****"+rotated[len(rotated)-8:])

		over := r.do(http.MethodDelete, at, "").want(http.StatusOK).field("status", "success")
		r.do(http.MethodGet, at, "").want(http.StatusNotFound).field("detail", "There is no such tunnel.")
		again := r.do(http.MethodGet, at+"/teardown-operations/"+over.text("id"), "").want(http.StatusOK)
		if diff := cmp.Diff(over.object(), again.object()); diff != "" {
			t.Errorf("the operation (-answered +read):\n%s", diff)
		}
		r.do(http.MethodGet, at+"/provisioning-operations/"+over.text("id"), "").want(http.StatusNotFound)
		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK)
		for _, action := range []string{"create-tunnel", "rotate-tunnel-token", "delete-tunnel"} {
			if !strings.Contains(string(log.body), `"`+action+`"`) {
				t.Errorf("the audit log lacks %s", action)
			}
		}
		for where, text := range map[string]string{"the audit log": string(log.body), "the log": r.logs.String()} {
			if strings.Contains(text, token) || strings.Contains(text, rotated) {
				t.Errorf("%s tells a token", where)
			}
		}
	})
}

// A services configuration holds at once where no agent is connected, and waits for those that are.
func TestTunnelServices(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		made := r.do(http.MethodPost, tunnelsPath, `{"name":"warehouse"}`).want(http.StatusCreated)
		at := tunnelsPath + "/" + made.text("tunnelId")
		r.do(http.MethodGet, at+"/services-configuration", "").want(http.StatusOK).field("version", 1.0).field("services", []any{})
		first := r.do(http.MethodPut, at+"/services-configuration", ordersOnly).want(http.StatusOK).field("status", "success")
		if got := string(r.do(http.MethodGet, at+"/services-configuration", "").want(http.StatusOK).body); strings.TrimSpace(got) != ordersOnly {
			t.Errorf("%s\n%s", got, ordersOnly)
		}
		if again := r.do(http.MethodPut, at+"/services-configuration", ordersOnly).want(http.StatusOK); again.text("id") != first.text("id") {
			t.Error("the same document has another result")
		}
		other := r.do(http.MethodPost, tunnelsPath, `{"name":"office"}`).want(http.StatusCreated).text("tunnelId")
		r.do(http.MethodPut, tunnelsPath+"/"+other+"/services-configuration", ordersOnly).want(http.StatusConflict)

		gateways := tunnels.New(r.store.Store)
		hash := r.hash(made.text("token"))
		connected, err := gateways.ConnectTunnel(t.Context(), [][]byte{hash}, domain.TunnelConnection{Process: "gw", AgentVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		r.do(http.MethodGet, at, "").want(http.StatusOK).field("status", "up")
		waits := r.do(http.MethodPut, at+"/services-configuration", `{"version":2,"services":[]}`).want(http.StatusOK).field("status", "in-progress")
		r.do(http.MethodPut, at+"/services-configuration", `{"version":3,"services":[]}`).want(http.StatusConflict)
		if err := gateways.AnswerConfiguration(t.Context(), connected.ID, waits.text("id"), "the agent says no"); err != nil {
			t.Fatal(err)
		}
		if _, err := gateways.SettleTunnel(t.Context(), made.text("tunnelId")); err != nil {
			t.Fatal(err)
		}
		r.do(http.MethodGet, at+"/provisioning-operations/"+waits.text("id"), "").want(http.StatusOK).field("status", "error").field("details", "the agent says no")
		r.do(http.MethodGet, at+"/services-configuration", "").want(http.StatusOK).field("version", 1.0)
		r.do(http.MethodDelete, at, "").want(http.StatusOK).field("status", "in-progress")
	})
}

// Bodies are read strictly, and every fault is named at once.
func TestTunnelBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for _, name := range []string{"", "ab", "a_b", "a b", "tün", strings.Repeat("a", 25)} {
		r.do(http.MethodPost, tunnelsPath, `{"name":"`+name+`"}`).faults("/name")
	}
	r.do(http.MethodPost, tunnelsPath, `{"token":"x"}`).faults("/name", "/token")
	at := tunnelsPath + "/" + r.do(http.MethodPost, tunnelsPath, `{"name":"`+strings.Repeat("a", 24)+`"}`).want(http.StatusCreated).text("tunnelId")
	for _, overlap := range []string{"-1", "86401", "1.5", `"1"`} {
		r.do(http.MethodPost, at+"/$rotate-token", `{"overlapSeconds":`+overlap+`}`).faults("/overlapSeconds")
	}
	r.do(http.MethodPost, at+"/$rotate-token", "").want(http.StatusOK)
	configure := func(body string) answer { return r.do(http.MethodPut, at+"/services-configuration", body) }
	configure(`{}`).faults("/services", "/version")
	configure(`{"version":256,"services":{}}`).faults("/services", "/version")
	configure(`{"version":1,"services":[{}]}`).faults("/services/0/configurations", "/services/0/endpoint", "/services/0/name")
	service := func(endpoint, access string) string {
		return fmt.Sprintf(`{"version":1,"services":[{"name":"orders","endpoint":%q,"configurations":[%s]}]}`, endpoint, access)
	}
	const good = `{"project":"shop","accessibleBy":["preview"]}`
	for _, endpoint := range []string{"orders", "ftp://orders", "http://", "http://u:p@orders", "http://orders?x", "http://orders#x", "http://orders:0", "http://orders:", "http://orders:99999", "service://orders", "http:orders"} {
		configure(service(endpoint, good)).faults("/services/0/endpoint")
	}
	for _, endpoint := range []string{"http://localhost:3000", "https://10.0.0.1", "http://[::1]:80/a/b", "http://orders.internal/"} {
		configure(service(endpoint, good)).want(http.StatusOK)
	}
	configure(service("http://a", "")).faults("/services/0/configurations")
	configure(service("http://a", `{"project":"","accessibleBy":["preview","preview","development"],"x":1}`)).faults(
		"/services/0/configurations/0/accessibleBy/1", "/services/0/configurations/0/accessibleBy/2", "/services/0/configurations/0/project", "/services/0/configurations/0/x")
	twice := `{"name":"orders","endpoint":"http://a","configurations":[` + good + `]}`
	configure(`{"version":1,"services":[` + twice + `,` + twice + `]}`).faults("/services/1/name")
	configure(`{"version":1,"services":[` + strings.Repeat(twice+",", 100) + twice + `]}`).want(http.StatusBadRequest)
}
