package routefile_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/jsonschema"
	"waybill.dev/services/api/internal/routefile"
)

// FuzzLoad looks for files that are neither read nor refused, and for operations that are
// read and can't be used.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(whole), []byte(wholePolicies))
	f.Add([]byte(document(with("/x/{id}", `"operationId":"x"`, `"mcp":{"type":"resource","uri":"a:{id}"}`))), []byte(`{}`))
	f.Add([]byte(`{"openapi":"3.0.0","paths":{"/x/:a(\\d+)/*":{"x-gateway-path":{"pathMode":"url-pattern"},"post":{`+body(`{"$ref":"#/components/schemas/a"}`)+`,`+route+`}}},"components":{"schemas":{"a":{"nullable":true,"type":"object","properties":{"a":{"$ref":"#/components/schemas/a"}}}}}}`), []byte(`{"policies":[]}`))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/x":{"$ref":"#/paths/~1x"}}}`), []byte(`[`))
	if own, err := os.ReadFile("../../../../config/routes.oas.json"); err == nil {
		f.Add(own, []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, file, policies []byte) {
		if len(file) > 64<<10 || len(policies) > 64<<10 {
			return
		}
		set, found := routefile.Load(folder("a.oas.json", string(file), "policies.json", string(policies)), environment)
		_ = found.Error()
		if len(found) > 0 {
			return
		}
		for _, o := range set.Files[0].Operations {
			use(t, o)
		}
	})
}

func use(t *testing.T, o *routefile.Operation) {
	t.Helper()
	if _, err := o.Matcher(); err != nil {
		t.Errorf("%s: %v", o.Path, err)
	}
	if def := o.Exposed(); def.Name == "" || def.Description == "" {
		t.Errorf("%s is exposed as %+v", o.ID, def)
	}
	if !o.Handler.Options.IsValid() {
		t.Errorf("options of %s are %s", o.ID, o.Handler.Options)
	}
	if o.Output != "" {
		if _, err := o.File.Schemas.Bundle(o.Output); err != nil {
			t.Errorf("%s: %v", o.Output, err)
		}
	}
	schema, err := o.Input()
	if err != nil {
		return
	}
	if _, err := jsonschema.Compile(schema); err != nil || !bytes.Contains(schema, []byte(`"object"`)) {
		t.Errorf("input of %s is %s: %v", o.ID, schema, err)
	}
	_, _ = o.Arguments(t.Context(), nil)
	_, _ = o.Arguments(t.Context(), jsontext.Value(`{"id":"1","body":{}}`))
	_, _ = o.Expand(t.Context(), map[string]string{"id": "1"})
}
