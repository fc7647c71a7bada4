package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/spec"
)

// schemaOf is what the document has of the fields of a body.
type schemaOf struct {
	Ref        string              `json:"$ref"`
	Properties map[string]schemaOf `json:"properties"`
	ReadOnly   bool                `json:"readOnly"`
	AllOf      []schemaOf          `json:"allOf"`
	OneOf      []schemaOf          `json:"oneOf"`
}

// operationOf is what the document has of an operation.
type operationOf struct {
	OperationID string `json:"operationId"`
	RequestBody struct {
		Content map[string]struct {
			Schema schemaOf `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

// formOf is the console's form for an operation: its templates, and the fields of the operation that it leaves out.
type formOf struct {
	templates string // below internal/console, separated by blanks; empty: the operation has no form for its fields
	leavesOut string
}

// consoleForms has each operation that takes fields; one without templates has no form. A template names a field in quotes.
func consoleForms() map[string]formOf {
	return map[string]formOf{
		"createAccount":                 {"access/accounts.html", ""},
		"createProject":                 {"access/projects.html", ""},
		"updateProject":                 {"environments/project.html", ""},
		"createBucket":                  {"access/bucket-form.html", ""},
		"updateBucket":                  {"access/bucket-form.html", ""},
		"createConsumer":                {"access/consumer-form.html", "apiKeys managers"}, // the consumer's page makes both
		"updateConsumer":                {"access/consumer-form.html", ""},
		"createKey":                     {"access/key-form.html", "key"}, // a key that exists is moved in by a program
		"updateKey":                     {"access/key.html", "key"},
		"createKeys":                    {"", ""},
		"rollKeys":                      {"access/roll.html", ""},
		"createManager":                 {"access/manager-form.html", ""},
		"createClientMtlsCaCertificate": {"certificates/list.html", ""},
		"updateClientMtlsCaCertificate": {"certificates/certificate.html", ""},
		"createDeploymentSource":        {"deployments/upload.html", "accountName"}, // that of the page
		"redeploy":                      {"", "buildId"},                            // the button stands beside the build
		"createCustomDomain":            {"domains/list.html", "stage isDefault isAlias"},
		"updateCustomDomain":            {"domains/list.html", "isDefault"},
		"verifyCustomDomain":            {"domains/list.html", ""},
		"putCustomDomainCertificate":    {"domains/list.html", ""},
		"createVariable":                {"environments/branch.html", ""},
		"updateVariable":                {"environments/variable.html", ""},
		"publishEvents":                 {"events/publish.html", "timestamp"},
		"retryDeliveries":               {"deliveries/list.html", "dryRun since until"}, // the page asks for a dry run first; TestConsoleRanges has its times
		"replayWebhook":                 {"webhooks/replay.html", "dryRun eventId eventType shipmentId reason class statusCode test"},
		"createMeter":                   {"metering/meters.html", "description metadata eventFrom valueProperty groupBy"},
		"updateMeter":                   {"", "name description metadata groupBy"},
		"createFeature":                 {"metering/meters.html", "meterGroupByFilters metadata"},
		"createPlan":                    {"", ""},
		"updatePlan":                    {"", ""},
		"queryMeterByBody":              {"", ""},
		"setSubscription":               {"metering/consumer.html", "version"},
		"createTunnel":                  {"tunnels/list.html", ""},
		"rotateTunnelToken":             {"", "overlapSeconds"},
		"configureTunnelServices":       {"", ""},
		"registerWebhook":               {"webhooks/new.html webhooks/_parts.html", "active secret"},
		"updateWebhook":                 {"webhooks/settings.html webhooks/_parts.html", "active"}, // has a button of its own
		"rotateWebhookSecret":           {"webhooks/secret.html", ""},
		"rotateSigningKeys":             {"webhooks/keys.html", ""},
		"testWebhook":                   {"webhooks/test.html", ""},
		"testWebhookFilter":             {"webhooks/_parts.html", "lastEvents"},
		"acknowledgeProblem":            {"problems/problems.html", ""},
		"setCursor":                     {"", "cursor"},
	}
}

// Each field that an operation takes has a place in the operation's form of the console, or is named as left out.
func TestFieldsHaveForms(t *testing.T) {
	t.Parallel()
	served, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]schemaOf `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(served.OpenAPI.Body, &document); err != nil {
		t.Fatal(err)
	}
	var fieldsOf func(schemaOf) []string
	fieldsOf = func(s schemaOf) (fields []string) {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			return fieldsOf(document.Components.Schemas[name])
		}
		for _, part := range slices.Concat(s.AllOf, s.OneOf) {
			fields = append(fields, fieldsOf(part)...)
		}
		for name, property := range s.Properties {
			if !property.ReadOnly {
				fields = append(fields, name)
			}
		}
		slices.Sort(fields)
		return slices.Compact(fields)
	}
	forms := consoleForms()
	for _, methods := range document.Paths {
		for _, method := range []string{"post", "put", "patch"} {
			var operation operationOf
			if methods[method] == nil {
				continue
			}
			if err := json.Unmarshal(methods[method], &operation); err != nil {
				t.Fatal(err)
			}
			content, takes := operation.RequestBody.Content["application/json"]
			fields := fieldsOf(content.Schema)
			if !takes || len(fields) == 0 {
				continue
			}
			form, ok := forms[operation.OperationID]
			if !ok {
				t.Errorf("%s takes %v, and the table of forms does not have it", operation.OperationID, fields)
				continue
			}
			delete(forms, operation.OperationID)
			checkForm(t, operation.OperationID, form, fields)
		}
	}
	for operation, form := range forms {
		if form.templates != "" || form.leavesOut != "" {
			t.Errorf("%s is in the table of forms, and takes no fields", operation)
		}
	}
}

func checkForm(t *testing.T, operation string, form formOf, fields []string) {
	t.Helper()
	var text []byte
	for name := range strings.FieldsSeq(form.templates) {
		folder, file := filepath.Split(name)
		template, err := os.ReadFile(filepath.Join("internal", "console", folder, "templates", file))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, template...)
	}
	leftOut := strings.Fields(form.leavesOut)
	for _, field := range fields {
		has := regexp.MustCompile(`["/.]` + field + `["/]`).Match(text)
		switch left := slices.Contains(leftOut, field); {
		case has && left:
			t.Errorf("%s: %s is named as left out, and the form has it", operation, field)
		case !has && !left && form.templates != "":
			t.Errorf("%s: the form has no field %s", operation, field)
		}
	}
	for _, field := range leftOut {
		if !slices.Contains(fields, field) {
			t.Errorf("%s: %s is named as left out, and the operation does not take it", operation, field)
		}
	}
}
