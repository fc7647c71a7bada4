package api_test

import (
	"encoding/json"
	"flag"
	"html"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "waybill.dev/services/api"
)

var updateCommands = flag.Bool("update-commands", false, "write testdata/console-commands.txt anew")

const commandsFile = "testdata/console-commands.txt"

var (
	codeText = regexp.MustCompile(`(?s)<code>(.*?)</code>`)
	// changing is what differs from run to run.
	changing = regexp.MustCompile(`\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(key|csmr|eusr|bckt|tun|pst|tst|mtlsca)_[0-9A-Za-z]{10,}|[0-9A-Za-z]{22}|[0-9A-HJKMNP-TV-Z]{26})\b`)
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	seconds  = regexp.MustCompile(`\b1[789]\d{8}\b`)
)

// commandsOf adds the commands that a page shows.
func commandsOf(page string, into map[string]bool) {
	for _, match := range codeText.FindAllStringSubmatch(page, -1) {
		text := strings.ReplaceAll(html.UnescapeString(match[1]), "\\\n", "")
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if input, command, ok := strings.Cut(line, "' | "); ok && strings.HasPrefix(input, "printf %s '") {
				line = command
			}
			if strings.HasPrefix(line, "waybill ") {
				line = moments.ReplaceAllString(changing.ReplaceAllString(line, "ID"), "2026-11-18T15:02:11Z")
				line = seconds.ReplaceAllString(line, "1795451377")
				into[strings.Join(strings.Fields(line), " ")] = true
			}
		}
	}
}

// toolCall is a call of a tool that a page shows.
type toolCall struct {
	Method string
	Params struct {
		Name      string
		Arguments map[string]any
	}
}

// tool is one of the shipped MCP server: its arguments, true for those that must be given.
type tool map[string]bool

// shippedTools reads the tools of the shipped route files.
func shippedTools(t *testing.T) map[string]tool {
	t.Helper()
	type parameter struct {
		Name     string
		Required bool
	}
	type operation struct {
		Parameters  []parameter
		RequestBody struct {
			Content map[string]struct {
				Schema struct {
					Required   []string
					Properties map[string]any
				}
			}
		}
		Route struct {
			MCP struct{ Name, Type string }
		} `json:"x-gateway-route"`
	}
	tools := map[string]tool{}
	for _, name := range []string{"routes.oas.json", "operations.oas.json"} {
		text, err := os.ReadFile("../../config/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for path, item := range file.Paths {
			var shared []parameter
			if all := item["parameters"]; all != nil {
				if err := json.Unmarshal(all, &shared); err != nil {
					t.Fatal(err)
				}
			}
			delete(item, "parameters")
			for method, described := range item {
				var o operation
				if err := json.Unmarshal(described, &o); err != nil {
					t.Fatalf("%s %s: %v", method, path, err)
				}
				if o.Route.MCP.Type != "tool" {
					continue
				}
				arguments := tool{}
				for _, p := range slices.Concat(shared, o.Parameters) {
					arguments[p.Name] = p.Required
				}
				schema := o.RequestBody.Content["application/json"].Schema
				for name := range schema.Properties {
					arguments[name] = slices.Contains(schema.Required, name)
				}
				tools[o.Route.MCP.Name] = arguments
			}
		}
	}
	return tools
}

var markup = regexp.MustCompile(`<[^>]*>`)

// checkTools checks that the tools that a page calls are there, with the arguments that it gives them. It returns how many there are.
func checkTools(t *testing.T, path, page string, tools map[string]tool) (calls int) {
	t.Helper()
	for _, match := range codeText.FindAllStringSubmatch(page, -1) {
		var call toolCall
		if json.Unmarshal([]byte(html.UnescapeString(markup.ReplaceAllString(match[1], ""))), &call) != nil || call.Method != "tools/call" {
			continue
		}
		calls++
		arguments, ok := tools[call.Params.Name]
		if !ok {
			t.Errorf("%s calls the tool %s, which there is not", path, call.Params.Name)
			continue
		}
		for name := range call.Params.Arguments {
			if _, ok := arguments[name]; !ok {
				t.Errorf("%s gives %s the argument %s, which it does not take", path, call.Params.Name, name)
			}
		}
		for name, required := range arguments {
			if _, ok := call.Params.Arguments[name]; required && !ok {
				t.Errorf("%s calls %s without %s", path, call.Params.Name, name)
			}
		}
	}
	return calls
}

// All commands that the console shows stand in a file, which a test of the command line reads: it
// has to take each of them. All tools that it shows are those of the MCP server, with their arguments.
func TestConsoleCommands(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	full, things := w.browser().signIn(adminKey), w.things()
	w.insist(http.MethodPost, "/v1/projects", `{"name":"walked-project"}`).want(http.StatusCreated)
	empty := w.browser().signIn(w.secondAccount("elsewhere"))
	const log = "/console/deliveries?status=failed&webhookId=w&eventId=e&eventType=shipment.created&shipmentId=s&reason=scheduleExhausted&class=timeout&statusCode=500&test=false&since=2026-11-18T15:02:11Z&until=2026-11-18T15:02:11Z"
	rich := w.register(`{"url":"http://127.0.0.1:1/h?a=b&c","events":["shipment.created"],"description":"it's mine","ratePerSecond":5,"headers":{"X-Api-Token":"v"},"retryScheduleSeconds":[1,2.5],"filter":{"data.carrier":"it's | dhl"},"active":false,"ordering":"shipment","orderingMaxWaitSeconds":60,"signing":"both"}`).text("id")
	pages := []string{
		"/console/webhooks/" + rich + "/code",
		log, strings.Replace(log, "deliveries?", "deliveries/send-again?", 1), "/console/events?type=shipment.created&source=rest&shipmentId=s&since=2026-11-18T15:02:11Z&until=2026-11-18T15:02:11Z",
		"/console/audit?action=a.b&actor=x&success=true&startDate=2026-11-18T15:02:11Z&endDate=2026-11-18T15:02:11Z",
		"/console/deployments?project=walked-project&branchName=a&environmentType=preview", "/console/new-deployment?project=walked-project&branch=feature/x",
		"/console/webhooks/{webhookId}/replay?since=2026-11-18T15:02:11Z&until=2026-11-18T15:02:11Z&status=all",
		"/console/environments/walked-project/main",
	}
	for _, module := range api.ConsoleModules() {
		for _, route := range module.Routes {
			if route.Method == http.MethodGet {
				pages = append(pages, route.Path)
			}
		}
	}
	found, tools, calls := map[string]bool{}, shippedTools(t), 0
	for _, path := range pages {
		page := full.get(things.Replace(path)).body
		commandsOf(page, found)
		commandsOf(empty.get(things.Replace(path)).body, found)
		calls += checkTools(t, path, page, tools)
	}
	if calls < 20 {
		t.Errorf("the pages call %d tools", calls)
	}
	got := strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"
	if *updateCommands {
		if err := os.WriteFile(commandsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(commandsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the console shows other commands than %s (write it anew with -update-commands):\n%s", commandsFile, got)
	}
}
