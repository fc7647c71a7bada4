package policy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// registry has the gateway's own policies alone.
func registry(t testing.TB) *policy.Registry {
	t.Helper()
	r, err := policy.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type pass struct{}

func (pass) In(context.Context, *route.Request) (*route.Response, error) { return nil, nil }

// added is a policy of a program.
func added() policy.Policy {
	return policy.Policy{
		Name: "country-inbound", Export: "CountryInboundPolicy",
		Options: `{"type":"object","required":["country"],"properties":{"country":{"enum":["DE","FR"]}},"additionalProperties":false}`,
		Example: `{"country":"DE"}`,
		New: func(_ []byte, env policy.Env) (policy.Parts, []policy.Fault) {
			if env.Definition == "refused" {
				return policy.Parts{}, []policy.Fault{{Pointer: "/country", Detail: "has no such road to " + env.Account}}
			}
			return policy.Parts{In: pass{}}, nil
		},
	}
}

// Every policy is true to what it says of itself, and its schema says of each option what it
// is for.
func TestRegistryIsInOrder(t *testing.T) {
	t.Parallel()
	r := registry(t)
	var names []string
	for _, p := range r.Policies() {
		names = append(names, p.Name)
		def := routefile.PolicyDef{Name: "it", Type: p.Name, Module: routefile.Runtime, Export: p.Export, Options: []byte(p.Example)}
		it, faults := r.Make(&def, policy.Env{Account: "default"})
		if len(faults) > 0 {
			t.Errorf("%s: its example: %v", p.Name, faults)
			continue
		}
		in, _ := it.Inbound(operation())
		if (in != nil) != strings.HasSuffix(p.Name, "-inbound") || (it.Outbound() != nil) != strings.HasSuffix(p.Name, "-outbound") {
			t.Errorf("%s: inbound %v, outbound %v", p.Name, in, it.Outbound())
		}
		schema := readSchema(t, p)
		if p.About == "" || schema.Additional || len(schema.Properties) == 0 {
			t.Errorf("%s: about %q, other members %v, %d options", p.Name, p.About, schema.Additional, len(schema.Properties))
		}
		for name, property := range schema.Properties {
			if property.Description == "" {
				t.Errorf("%s: nothing is said of %s", p.Name, name)
			}
		}
	}
	if !slices.IsSorted(names) || len(names) != 15 {
		t.Errorf("the policies %v", names)
	}
}

// What a schema allows, the policy can read: null, other kinds and numbers that are whole
// though they have a point are no surprise.
func TestOptionsThatTheSchemaAllowsCanBeRead(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string]string{
		"rate-limit-inbound":         `{"rateLimitBy":"all","requestsAllowed":1e9,"timeWindowMinutes":0.00166}`,
		"request-size-limit-inbound": `{"maxSizeInBytes":4194304.0}`,
		"set-status-outbound":        `{"status":2.0e2}`,
		"api-key-inbound":            `{"accounts":"*","scopes":[]}`,
	} {
		if _, faults := made(t, definition(kind, options)); len(faults) > 0 {
			t.Errorf("%s %s: %v", kind, options, faults)
		}
	}
	for kind, options := range map[string]string{
		"rate-limit-inbound":      `{"rateLimitBy":null,"requestsAllowed":1,"timeWindowMinutes":1}`,
		"api-key-inbound":         `{"Scopes":[]}`,
		"ip-restriction-inbound":  `{"allow":null}`,
		"set-headers-inbound":     `{"headers":[{"Name":"A","value":"b"}]}`,
		"remove-headers-outbound": `{"headers":[null]}`,
	} {
		if _, faults := made(t, definition(kind, options)); len(faults) == 0 {
			t.Errorf("%s %s is taken", kind, options)
		}
	}
}

func TestAddedPolicies(t *testing.T) {
	t.Parallel()
	r, err := policy.NewRegistry(added())
	if err != nil {
		t.Fatal(err)
	}
	if list := r.Policies(); list[len(list)-1].Name != "country-inbound" {
		t.Errorf("%d policies without the added one", len(list))
	}
	for _, row := range []struct{ name, options, want string }{
		{"it", `{"country":"DE"}`, ""},
		{"it", `{"country":"hunter2","town":1}`, `handler/options/country must be one of "DE", "FR"; handler/options/town is not a known member`},
		{"it", `{}`, "handler/options/country is required"},
		{"refused", `{"country":"FR"}`, "handler/options/country has no such road to acme"},
		{"refused", `{}`, "handler/options/country is required"},
	} {
		def := definition("country-inbound", row.options)
		def.Name = row.name
		it, faults := r.Make(&def, policy.Env{Account: "acme"})
		if got := strings.Join(faults, "; "); got != row.want || (it == nil) != (row.want != "") {
			t.Errorf("%s %s: %q, want %q", row.name, row.options, got, row.want)
		}
	}
}

// A policy that can't work is refused when the program starts, and not with the first file
// that names it.
func TestAddedPoliciesThatCantWork(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*policy.Policy){
		"needs Name, Export and New":         func(p *policy.Policy) { p.New = nil },
		"there is one of that name already":  func(p *policy.Policy) { p.Name = policy.APIKey },
		"read the schema of its options":     func(p *policy.Policy) { p.Options = `{"type":"objekt"}` },
		"its example: handler/options/count": func(p *policy.Policy) { p.Example = `{"country":"XX"}` },
	} {
		p := added()
		change(&p)
		if _, err := policy.NewRegistry(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := policy.NewRegistry(added(), added()); err == nil {
		t.Error("two of the same name are taken")
	}
	bare := added()
	bare.Options, bare.Example = "", ""
	r, err := policy.NewRegistry(bare)
	if err != nil {
		t.Fatal(err)
	}
	def := definition("country-inbound", `{"country":"DE"}`)
	if _, faults := r.Make(&def, policy.Env{}); len(faults) != 1 {
		t.Errorf("a policy without options takes some: %v", faults)
	}
}

// schema is what the schema of options says.
type schema struct {
	Required   []string
	Properties map[string]property
	Additional bool `json:"additionalProperties"`
}

type property struct {
	Type             any
	Description      string
	Enum             []string
	Default          any
	Minimum, Maximum *float64
	MinItems         *int
	Items            *struct {
		Type       string
		Enum       []string
		Required   []string
		Properties map[string]property
	}
}

func readSchema(t *testing.T, p policy.Policy) schema {
	t.Helper()
	read := schema{Additional: true}
	if err := json.Unmarshal([]byte(p.Options), &read); err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return read
}

func BenchmarkMake(b *testing.B) {
	for b.Loop() {
		def := definition("rate-limit-inbound", `{"rateLimitBy":"all","requestsAllowed":9,"timeWindowMinutes":1}`)
		if _, faults := registry(b).Make(&def, policy.Env{}); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}

// What uploaded routes can't have is told beside what nobody can have.
func TestFaultsOfUploadedRoutes(t *testing.T) {
	t.Parallel()
	def := definition("api-key-inbound", `{"accounts":["acme"],"allowUnauthenticatedRequests":true,"scopes":["mcp:use"]}`)
	_, faults := registry(t).Make(&def, policy.Env{Account: "globex", Uploaded: true})
	want := "handler/options/accounts can't be used in uploaded routes, which take the keys of their own account; " +
		"handler/options/scopes can't be required when callers need no key"
	if got := strings.Join(faults, "; "); got != want {
		t.Errorf("faults %q, want %q", got, want)
	}
}
