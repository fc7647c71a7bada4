package routefile_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
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
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(body.Text, []byte(`{}`))
		f.Add([]byte(`{"openapi":"3.1.0","paths":{},"x":`+string(body.Text)+`}`), body.Text)
	}
	f.Fuzz(func(t *testing.T, file, policies []byte) {
		if len(file) > 64<<10 || len(policies) > 64<<10 {
			return
		}
		var set *routefile.Set
		var found routefile.Faults
		hold(t, len(file)+len(policies), func() {
			set, found = routefile.Load(nil, folder("a.oas.json", string(file), "policies.json", string(policies)), environment)
		})
		_ = found.Error()
		if len(found) > 0 {
			return
		}
		for _, o := range set.Files[0].Operations {
			use(t, o)
		}
	})
}

// hold bounds what reading a file may cost. Files are their operator's: they are compiled into
// schemas and kept as trees, which take far more than a body may.
func hold(t *testing.T, size int, read func()) {
	t.Helper()
	attack.Hold(t, size, attack.Allowance{CPU: 4, Times: 200, Bytes: 32 << 20}, read)
}

// A file of the greatest size that is no route file is refused at once, with a hundred faults.
func TestAttacks(t *testing.T) {
	for _, body := range attack.Bodies(1 << 20) {
		t.Run(body.Name, func(t *testing.T) {
			for _, file := range []string{string(body.Text), `{"openapi":"3.1.0","paths":{},"x":` + string(body.Text) + `}`} {
				dir := folder("a.oas.json", file, "policies.json", string(body.Text))
				attack.Hold(t, 2*len(file), attack.Allowance{CPU: 12, Times: 8, Bytes: 64 << 20}, func() {
					if _, found := routefile.Load(nil, dir, environment); len(found) > 2*jsonscan.MaxFaults+10 {
						t.Errorf("%d faults", len(found))
					}
				})
			}
		})
	}
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
	for _, output := range o.Outputs {
		if _, err := o.File.Schemas.Bundle(output, jsonschema.Answers); err != nil {
			t.Errorf("%s: %v", output, err)
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
	_, _ = o.CallFromPath(t.Context(), map[string]string{"id": "1"})
}
