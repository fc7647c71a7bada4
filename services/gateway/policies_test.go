package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
)

// stamp marks requests before the handler, and answers after it.
type stamp struct{ Text string }

func (s *stamp) NeedsBody() bool { return false }

func (s *stamp) In(_ context.Context, r *gateway.Request) (*gateway.Response, error) {
	if r.Header.Get("X-Stamp") != "" {
		return &gateway.Response{Status: http.StatusConflict, Body: []byte("stamped already")}, nil
	}
	return nil, nil
}

func (s *stamp) Out(_ context.Context, _ *gateway.Request, response *gateway.Response) (*gateway.Response, error) {
	response.Header.Set("X-Stamp", s.Text)
	return response, nil
}

func stamping(t *testing.T) *gateway.Policies {
	t.Helper()
	policies, err := gateway.NewPolicies(gateway.Policy{
		Name: "stamp", Export: "StampPolicy",
		Options: `{"type":"object","required":["text"],"properties":{"text":{"type":"string","maxLength":5}},"additionalProperties":false}`,
		New: func(options []byte, _ gateway.PolicyEnv) (gateway.PolicyParts, []gateway.PolicyFault) {
			s := new(stamp)
			if err := json.Unmarshal(options, s); err != nil {
				return gateway.PolicyParts{}, []gateway.PolicyFault{{Detail: err.Error()}}
			}
			return gateway.PolicyParts{In: s, Out: s}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

func stamped(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	stampedFiles(options).Write(t, dir)
	return dir
}

func stampedFiles(options string) gatewaytest.Files {
	return gatewaytest.Files{
		"policies.json": `{"policies":[{"name":"mark","policyType":"stamp","handler":{"module":"$import(@gateway/runtime)","export":"StampPolicy","options":` + options + `}}]}`,
		"a.oas.json": `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"operationId":"a","x-gateway-route":{
			"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"hello"}},
			"policies":{"inbound":["mark"],"outbound":["mark"]}}}}}}`,
	}
}

// A program adds a policy of its own, which route files then use like any other.
func TestPolicyOfAProgram(t *testing.T) {
	t.Parallel()
	options := gatewaytest.Options(stamped(t, `{"text":"$env(STAMP)"}`), io.Discard)
	options.Policies, options.Variables = stamping(t), gateway.Variables{"STAMP": "blue"}
	_, url := gatewaytest.Serve(t, options)
	for sent, want := range map[string]struct {
		status int
		body   string
	}{"": {http.StatusOK, "hello"}, "red": {http.StatusConflict, "stamped already"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/a", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Stamp", sent)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != want.status || string(body) != want.body || answer.Header.Get("X-Stamp") != "blue" {
			t.Errorf("sent %q: %d %q %v, %v", sent, answer.StatusCode, body, answer.Header, err)
		}
	}
}

// Its schema is what the check of a folder goes by, and without it the policy is none.
func TestFaultsOfAPolicyOfAProgram(t *testing.T) {
	t.Parallel()
	check := func(options gateway.RoutesOptions) string {
		t.Helper()
		_, faults, err := gateway.CheckRoutes(options)
		if err != nil {
			t.Fatal(err)
		}
		lines := make([]string, len(faults))
		for i, fault := range faults {
			lines[i] = fault.Error()
		}
		return strings.Join(lines, "\n")
	}
	options := gatewaytest.Options(stamped(t, `{"text":"hunter2","ink":1}`), io.Discard)
	options.Policies = stamping(t)
	want := "policies.json: /policies/0: policy mark: handler/options/ink is not a known member\n" +
		"policies.json: /policies/0: policy mark: handler/options/text must have 5 characters or fewer"
	if got := check(options); got != want {
		t.Errorf("faults:\n%s\nwant:\n%s", got, want)
	}
	options.Policies = nil
	if got := check(options); !strings.HasPrefix(got, "policies.json: /policies/0: policy mark: policyType is not one of the gateway's: api-key-inbound, ") {
		t.Errorf("without the policy: %s", got)
	}
}
