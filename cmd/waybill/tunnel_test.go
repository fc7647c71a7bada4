package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tunnelRoutes = `{"openapi":"3.1.0","info":{"title":"Orders","version":"1"},"paths":{"/orders":{"get":{"operationId":"listOrders","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"service://orders"}}}}}}}`

// A service in another network is reached through a tunnel, from its making to its end.
func TestATunnelFromItsTokenToItsEnd(t *testing.T) {
	t.Parallel()
	i := dev(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "from the warehouse: "+r.URL.Path)
	}))
	t.Cleanup(service.Close)
	made := read[struct{ TunnelID, Token string }](t, i, "", "tunnels", "create", "warehouse")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(i.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("shop/orders.oas.json", tunnelRoutes)
	must(t, i.dir, "projects", "create", "shop")
	if code, _, stderr := waybill(t, i.dir, "deploy", "shop", "--project", "shop", "--branch", "main"); code != 1 || !strings.Contains(stderr, "is a service that no tunnel of the account has") {
		t.Errorf("without the service: exit code %d\n%s", code, stderr)
	}
	write("services.json", fmt.Sprintf(`{"version":1,"services":[{"name":"orders","endpoint":%q,"configurations":[{"project":"shop","accessibleBy":["production"]}]}]}`, service.URL))
	must(t, i.dir, "tunnels", "configure", made.TunnelID, "services.json")
	if code, _, stderr := waybill(t, i.dir, "deploy", "shop", "--project", "shop", "--branch", "topic"); code != 1 || !strings.Contains(stderr, "is a service that this environment of the project may not use") {
		t.Errorf("for another environment: exit code %d\n%s", code, stderr)
	}
	url := must(t, i.dir, "deploy", "shop", "--project", "shop", "--branch", "main")
	i.becomes(t, url, "/orders", http.StatusBadGateway, "") // there is no agent
	write("token", made.Token+"\n")
	agent := prepare(t, i.dir, nil, "waybill", "tunnel", "run", "--token-file", "token", "--allow", service.URL)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if status, text := i.ask(t, url, "/orders", ""); status != http.StatusOK || text != "from the warehouse: /orders" {
			return fmt.Errorf("it answers %d %s\n%s", status, text, agent.err.String())
		}
		return nil
	})
	must(t, i.dir, "tunnels", "delete", made.TunnelID, "--yes")
	_ = agent.Wait() // its exit code says how it has ended
	if code := agent.ProcessState.ExitCode(); code != 1 || !strings.Contains(agent.err.String(), "the gateway refuses the token") {
		t.Errorf("the agent exits with %d:\n%s", code, agent.err.String())
	}
	for where, text := range map[string]string{"the agent": agent.err.String() + agent.out.String(), "the installation": i.err.String()} {
		if strings.Contains(text, made.Token) {
			t.Errorf("%s tells the token", where)
		}
	}
	c := prepare(t, i.dir, []string{"WAYBILL_TUNNEL_TOKEN=wbt_wrong"}, "waybill", "tunnel", "run", "--allow-any")
	if code := c.finish(t); code != 1 || !strings.Contains(c.err.String(), "reaches all that this") || !strings.Contains(c.err.String(), "those begin with wbt_") {
		t.Errorf("with no token: %d %s", code, c.err.String())
	}
	for want, arguments := range map[string][]string{
		"name the origins": nil,
		"not both":         {"--allow", service.URL, "--allow-any"},
		"an origin is":     {"--allow", "http://127.0.0.1.:1"},
	} {
		c := prepare(t, i.dir, []string{"WAYBILL_TUNNEL_TOKEN=" + made.Token}, "waybill", append([]string{"tunnel", "run"}, arguments...)...)
		if code := c.finish(t); code != 2 || !strings.Contains(c.err.String(), want) {
			t.Errorf("%v: %d %s", arguments, code, c.err.String())
		}
	}
}
