// Package imports_test says who may import what, and why. The workspace would let any
// module use what any other one requires; these tables are the border.
package imports_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const project = "waybill.dev/"

// families are the packages that have tables, or write into another one's: a package that
// needs a table of its own is added here by its name, and by nothing shorter. What SQL there
// is stands in them and in the engine.
var families = []string{
	"waybill.dev/shared/store/accounts",              // both services ask whose accounts there are
	"waybill.dev/shared/store/auditlog",              // families of api and shared write entries
	"waybill.dev/shared/store/clientcas",             // the api writes, gateways read
	"waybill.dev/shared/store/counts",                // the families whose rows it counts write it
	"waybill.dev/shared/store/deployments",           // the api asks for builds, gateways make them
	"waybill.dev/shared/store/domains",               // the api says whose a hostname is, gateways keep certificates
	"waybill.dev/shared/store/keyholders",            // api and gateway read who holds a key
	"waybill.dev/shared/store/metering",              // the api says what may be used, gateways and the record stage count
	"waybill.dev/shared/store/traffic",               // gateways write, the api reads
	"waybill.dev/shared/store/tunnels",               // the api configures, gateways connect
	"waybill.dev/shared/store/pipeline",              // both services work on it
	"waybill.dev/shared/store/rollup",                // both services count, in the transaction of what is counted
	"waybill.dev/shared/store/recorder",              // the dispatcher's; its suite and the pipeline's need each other
	"waybill.dev/services/api/internal/store/access", // the api's alone
}

// testSupport are packages that exist for tests: no binary may contain them, and they may
// import what tests may.
var testSupport = []string{
	"waybill.dev/shared/body/bodytest",
	"waybill.dev/shared/bus/bustest",
	"waybill.dev/shared/certificate/certificatetest",
	"waybill.dev/shared/egress/hostile",
	"waybill.dev/shared/jsonscan/attack",
	"waybill.dev/shared/jwt/jwttest",
	"waybill.dev/shared/pgtest",
	"waybill.dev/shared/receiverauth/receiverauthtest",
	"waybill.dev/shared/store/storetest",
	"waybill.dev/shared/store/deployments/deploymentstest",
	"waybill.dev/shared/store/pipeline/pipelinetest",
	"waybill.dev/services/api/apitest",
	"waybill.dev/services/gateway/gatewaytest",
	"waybill.dev/services/api/internal/spec/source",
	"waybill.dev/cmd/internal/sqlitework",
	"waybill.dev/cmd/lab",
}

// testLibraries are what no binary may contain besides.
var testLibraries = []string{
	"testing", "github.com/google/go-cmp/cmp", "go.uber.org/goleak",
	"github.com/getkin/kin-openapi/openapi3",
}

// exactly is a package without those below it, in the rules.
const exactly = "="

// engine is the store without its families, and the frame of their suites.
const (
	engine = exactly + "waybill.dev/shared/store"
	frame  = exactly + "waybill.dev/shared/store/storetest"
)

// rules say which packages (by prefix) may import a package (by prefix).
var rules = []struct {
	imported string
	by       []string
	tests    bool // tests and test support may import it too
	why      string
}{
	{"waybill.dev/services/api", []string{"waybill.dev/cmd", "waybill.dev/services/api"}, false, "services meet on the bus and in the database, not in code"},
	{"waybill.dev/services/dispatcher", []string{"waybill.dev/cmd", "waybill.dev/services/dispatcher"}, false, "services meet on the bus and in the database, not in code"},
	{"waybill.dev/services/gateway", []string{"waybill.dev/cmd", "waybill.dev/services/gateway"}, false, "likewise; the API's functions reach its routes as values, which cmd hands over"},
	{"waybill.dev/cmd", []string{"waybill.dev/cmd"}, false, "cmd composes the others and is composed by nobody"},
	{"waybill.dev/cmd/lab", []string{"waybill.dev/cmd/lab"}, false, "what tries and measures the programs is in none of them"},
	{"waybill.dev/shared/pgtest", nil, true, "test support"},
	{"waybill.dev/shared/bus/bustest", nil, true, "test support"},

	{"github.com/gin-gonic/gin", []string{"waybill.dev/services/api/internal/kernel/web"}, false, "the kernel of the API routes; no family of resources sees how"},
	{"gorm.io/", append(exact(families), engine, frame), false, "rows stay with their tables; callers see domain types"},
	{"github.com/jackc/pgx", []string{engine, exactly + "waybill.dev/shared/store/recorder", exactly + "waybill.dev/shared/store/pipeline"}, true, "SQL is written beside its tables; only what is accepted and recorded in bulk goes to the driver itself"},
	{"modernc.org/sqlite", []string{engine}, true, "the engine opens databases"},
	{"github.com/pressly/goose", []string{engine}, false, "the engine migrates them"},
	{"waybill.dev/shared/store/recorder", []string{"waybill.dev/services/dispatcher"}, true, "dispatchers alone write the log"},
	{"waybill.dev/shared/store/auditlog", append(exact(families), "waybill.dev/services/api"), true, "dispatchers change nothing that anybody asked for"},
	{"github.com/nats-io/nats.go", []string{"waybill.dev/shared/bus", "waybill.dev/cmd"}, true, "one package knows NATS; cmd opens connections and publishes as a guest"},
	{"github.com/nats-io/nats-server", []string{"waybill.dev/cmd/waybill", "waybill.dev/cmd/internal"}, true, "only the all-in-one binary and tests carry a server"},
	{"github.com/cenkalti/backoff", []string{"waybill.dev/shared/again", "waybill.dev/services", "waybill.dev/cmd"}, true, "waits inside a process; deliveries wait in schedules on the bus"},
	{"code.dny.dev/ssrf", []string{"waybill.dev/shared/egress"}, false, "one package decides where callbacks may go"},
	{"github.com/go-json-experiment/json", []string{"waybill.dev/shared/jsonscan", "waybill.dev/shared/jwt", "waybill.dev/shared/problem", "waybill.dev/services/api", "waybill.dev/services/gateway"}, false, "strict decoding of what comes from outside"},
	{"github.com/spf13/", []string{"waybill.dev/cmd"}, false, "flags are read in cmd; services get Options"},
	{"go.opentelemetry.io/otel/sdk", []string{"waybill.dev/cmd"}, true, "cmd sets telemetry up; others see the interfaces"},
	{"go.opentelemetry.io/otel/exporters", []string{"waybill.dev/cmd"}, false, "likewise"},
	{"github.com/swaggest/swgui", []string{"waybill.dev/services/api/internal/docsite"}, false, "the pages that show the API documents"},
	{"github.com/go-jose/go-jose/v4", []string{"waybill.dev/shared/jwt"}, false, "signatures of access tokens"},
	{"github.com/yuin/goldmark", []string{"waybill.dev/services/api/internal/docsite"}, false, "the guides are written in Markdown, and shown at /docs"},
	{"waybill.dev/docs", []string{"waybill.dev/services/api"}, false, "the api shows the guides; nobody else carries them"},
	{"waybill.dev/config", []string{"waybill.dev/services/gateway"}, false, "gateways serve the routes that come with Waybill; nobody else carries them"},
	{"github.com/goccy/go-yaml", []string{"waybill.dev/services/api/internal/spec/source"}, false, "the API documents are written in YAML and served as JSON"},
	{"github.com/santhosh-tekuri/jsonschema", []string{"waybill.dev/services/gateway/internal/jsonschema"}, true, "one package checks JSON against schemas; tests hold answers to the OpenAPI document"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"waybill.dev/services/gateway/internal/mcpserver", "waybill.dev/cmd/waybill/internal/inspect"}, true, "one package serves MCP, and one command asks other servers"},
	{"github.com/getkin/kin-openapi", nil, true, "for tests: another reader of the OpenAPI document"},
	{"github.com/standard-webhooks/", []string{"waybill.dev/cmd/internal/demo", "waybill.dev/cmd/waybill"}, true, "an independent verifier of our own signatures: for tests and the demo"},
	{"github.com/google/go-cmp", nil, true, "for tests"},
	{"github.com/chromedp/", nil, true, "for tests of the console in a browser"},
	{"go.uber.org/goleak", nil, true, "for tests"},
}

// binaries are what must be in each of the binaries, and what must not, beside test
// support and its libraries.
var binaries = []struct {
	path       string
	has, lacks []string
}{
	{
		path: "waybill.dev/cmd/waybill",
		has:  []string{"waybill.dev/services/api", "waybill.dev/services/dispatcher", "waybill.dev/services/gateway", "github.com/nats-io/nats-server/v2/server"},
	},
	{
		path:  "waybill.dev/cmd/api",
		has:   []string{"waybill.dev/services/api", "waybill.dev/services/gateway"},
		lacks: []string{"waybill.dev/services/dispatcher", "github.com/nats-io/nats-server/v2/server"},
	},
	{
		path:  "waybill.dev/cmd/dispatcher",
		has:   []string{"waybill.dev/services/dispatcher"},
		lacks: []string{"waybill.dev/services/api", "waybill.dev/services/gateway", "github.com/gin-gonic/gin", "github.com/nats-io/nats-server/v2/server"},
	},
	{
		path:  "waybill.dev/cmd/gateway",
		has:   []string{"waybill.dev/services/gateway"},
		lacks: []string{"waybill.dev/services/api", "waybill.dev/services/dispatcher", "github.com/gin-gonic/gin", "github.com/nats-io/nats-server/v2/server"},
	},
}

type goPackage struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestRules(t *testing.T) {
	t.Parallel()
	packages := workspace(t)
	for _, rule := range rules {
		used := false
		for _, p := range packages {
			imports := p.Imports
			if !rule.tests {
				imports = slices.Concat(imports, p.TestImports, p.XTestImports)
			} else if slices.ContainsFunc(testSupport, func(s string) bool { return within(s)(p.ImportPath) }) {
				imports = nil
			}
			if slices.ContainsFunc(slices.Concat(p.Imports, p.TestImports, p.XTestImports), within(rule.imported)) {
				used = true
			}
			at := slices.IndexFunc(imports, within(rule.imported))
			if at >= 0 && !slices.ContainsFunc(rule.by, func(by string) bool { return within(by)(p.ImportPath) }) {
				t.Errorf("%s imports %s; only %v may: %s", p.ImportPath, imports[at], rule.by, rule.why)
			}
		}
		if !used {
			t.Errorf("nobody imports %s: the rule has become idle", rule.imported)
		}
	}
}

func TestDomainStandsAlone(t *testing.T) {
	t.Parallel()
	domain := list(t, ".", "-deps", "waybill.dev/shared/domain")
	for _, p := range domain {
		if !p.Standard && p.ImportPath != "waybill.dev/shared/domain" {
			t.Errorf("shared/domain depends on %s; it uses the standard library alone", p.ImportPath)
		}
	}
}

// The table of decision 0004 has each package of shared, and the services whose code leads to it: two
// at least, or one and tests of another module.
func TestSharedPackages(t *testing.T) {
	t.Parallel()
	packages := workspace(t)
	table := sharedTable(t)
	for _, p := range packages {
		name, ok := strings.CutPrefix(p.ImportPath, project+"shared/")
		if !ok || strings.Contains(name, "internal/") || slices.Contains(testSupport, p.ImportPath) {
			continue
		}
		for _, word := range []string{"util", "common", "helper", "types", "models", "base", "misc"} {
			if strings.Contains(name, word) {
				t.Errorf("shared/%s: a package has a job, and is named after it", name)
			}
		}
		var users []string
		for _, service := range []string{"api", "dispatcher", "gateway"} {
			if reaches(packages, project+"services/"+service, p.ImportPath) {
				users = append(users, service)
			}
		}
		elsewhere := func(of goPackage) bool {
			return !within(project+"shared")(of.ImportPath) && !slices.ContainsFunc(users, func(service string) bool { return within(project + "services/" + service)(of.ImportPath) }) &&
				slices.Contains(slices.Concat(of.Imports, of.TestImports, of.XTestImports), p.ImportPath)
		}
		if len(users) < 2 && !slices.ContainsFunc(packages, elsewhere) {
			t.Errorf("shared/%s: %v alone needs it; it belongs there", name, users)
		}
		if services, ok := table[name]; !ok {
			t.Errorf("shared/%s is not in the table of decision 0004", name)
		} else if diff := cmp.Diff(users, slices.DeleteFunc(services, func(s string) bool { return s == "cmd" })); diff != "" {
			t.Errorf("shared/%s: services (-by imports +in the table of decision 0004):\n%s", name, diff)
		}
		delete(table, name)
	}
	for name := range table {
		t.Errorf("decision 0004 has shared/%s, which is not there, or is for tests", name)
	}
}

// sharedTable reads the services of each package of shared from decision 0004.
func sharedTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/decisions/0004-shared-packages.md")
	if err != nil {
		t.Fatal(err)
	}
	table := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		if strings.TrimSpace(cells[2]) == "" || strings.TrimSpace(cells[4]) == "" {
			t.Errorf("decision 0004 does not say what%sis, or why it is shared", cells[1])
		}
		table[strings.Trim(cells[1], " `")] = strings.Split(strings.TrimSpace(cells[3]), ", ")
	}
	return table
}

// reaches reports whether the code of a module, without its tests, leads to a package.
func reaches(packages []goPackage, module, path string) bool {
	imports := make(map[string][]string)
	var next []string
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
		if within(module)(p.ImportPath) && !slices.Contains(testSupport, p.ImportPath) {
			next = append(next, p.ImportPath)
		}
	}
	seen := make(map[string]bool)
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if at == path {
			return true
		}
		if !seen[at] {
			seen[at] = true
			next = append(next, imports[at]...)
		}
	}
	return false
}

// Every family is tried on both databases, in the frame that does so.
func TestFamilies(t *testing.T) {
	t.Parallel()
	packages := workspace(t)
	for _, path := range families {
		at := slices.IndexFunc(packages, func(p goPackage) bool { return p.ImportPath == path })
		if at < 0 {
			t.Errorf("there is no family %s", path)
			continue
		}
		p := packages[at]
		if !slices.Contains(slices.Concat(p.TestImports, p.XTestImports), "waybill.dev/shared/store/storetest") {
			t.Errorf("%s has no tests in the frame of storetest", path)
		}
	}
}

func TestBinaries(t *testing.T) {
	t.Parallel()
	for _, binary := range binaries {
		deps := make(map[string]bool)
		for _, p := range list(t, ".", "-deps", binary.path) {
			deps[p.ImportPath] = true
		}
		for _, path := range binary.has {
			if !deps[path] {
				t.Errorf("%s lacks %s", binary.path, path)
			}
		}
		for _, path := range slices.Concat(binary.lacks, testSupport, testLibraries) {
			if deps[path] {
				t.Errorf("%s contains %s", binary.path, path)
			}
		}
	}
}

// exact returns packages as the rules name them without those below them.
func exact(paths []string) []string {
	named := make([]string, len(paths))
	for i, path := range paths {
		named[i] = exactly + path
	}
	return named
}

// within returns a function that reports whether a path is prefix or lies below it.
func within(prefix string) func(string) bool {
	if path, ok := strings.CutPrefix(prefix, exactly); ok {
		return func(other string) bool { return other == path }
	}
	return func(path string) bool {
		rest, ok := strings.CutPrefix(path, prefix)
		return ok && (rest == "" || strings.HasSuffix(prefix, "/") || rest[0] == '/' || rest[0] == '.')
	}
}

// workspace lists the packages of all modules, by path.
func workspace(t *testing.T) []goPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("list the modules: %v", reason(err))
	}
	dirs := strings.Fields(string(out))
	if len(dirs) != 8 {
		t.Fatalf("the workspace has %d modules, want 8: %v", len(dirs), dirs)
	}
	all := make(map[string]goPackage)
	for _, dir := range dirs {
		for _, p := range list(t, dir, "./...") {
			all[p.ImportPath] = p
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
}

// list runs `go list` in dir.
func list(t *testing.T, dir string, args ...string) []goPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports"}, args...)...)
	command.Dir = filepath.Clean(dir)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list %v in %s: %v", args, dir, reason(err))
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("decode what go list printed: %v", err)
		}
		packages = append(packages, p)
	}
}

func reason(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
