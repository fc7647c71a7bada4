package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Deployments of `waybill dev` may reach this machine, but nothing that the installation itself listens
// on, its receiver neither. Its pages answer to its own names.
func TestDevIsNoBackEndOfItsOwn(t *testing.T) {
	t.Parallel()
	i := dev(t, "WAYBILL_GATEWAY_EGRESS_ALLOW=127.0.0.0/8")
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	var routes strings.Builder
	routes.WriteString(`{"openapi":"3.1.0","info":{"title":"Own","version":"1"},"paths":{"/none":{"get":{"operationId":"none","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x"}}}}}`)
	want := map[string]int{"/service": http.StatusOK, "/api": http.StatusBadGateway, "/receiver": http.StatusBadGateway}
	for path, to := range map[string]string{"/service": service.URL, "/api": i.addresses.API, "/receiver": i.addresses.Receiver} {
		_, _ = fmt.Fprintf(&routes, `,%q:{"get":{"operationId":%q,"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":%q}}}}}`, path, path[1:], to)
	}
	if err := os.Mkdir(filepath.Join(i.dir, "own"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(i.dir, "own", "own.oas.json"), []byte(routes.String()+"}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, i.dir, "projects", "create", "own")
	url := must(t, i.dir, "deploy", "own", "--project", "own", "--branch", "main")
	for path, status := range want {
		i.becomes(t, url, path, status, "")
	}
	for host, status := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "localhost": http.StatusOK} {
		for _, path := range []string{"/console/sign-in", "/docs"} {
			if got, text := i.ask(t, "http://"+host, path, ""); got != status {
				t.Errorf("%s%s: %d %.200s", host, path, got, text)
			}
		}
	}
}
