package api_test

import (
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
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "waybill ") {
				line = moments.ReplaceAllString(changing.ReplaceAllString(line, "ID"), "2026-11-18T15:02:11Z")
				line = seconds.ReplaceAllString(line, "1795451377")
				into[strings.Join(strings.Fields(line), " ")] = true
			}
		}
	}
}

// All commands that the console shows stand in a file, which a test of the command line reads: it
// has to take each of them.
func TestConsoleCommands(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	full, things := w.browser().signIn(adminKey), w.things()
	w.insist(http.MethodPost, "/v1/projects", `{"name":"walked-project"}`).want(http.StatusCreated)
	empty := w.browser().signIn(w.secondAccount("elsewhere"))
	const log = "/console/deliveries?status=failed&webhookId=w&eventId=e&eventType=shipment.created&shipmentId=s&reason=scheduleExhausted&class=timeout&statusCode=500&test=false&since=2026-11-18T15:02:11Z&until=2026-11-18T15:02:11Z"
	rich := w.register(`{"url":"http://127.0.0.1:1/h?a=b&c","events":["shipment.created"],"description":"it's mine","ratePerSecond":5,"headers":{"X-Api-Token":"v"},"retryScheduleSeconds":[1,2.5]}`).text("id")
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
	found := map[string]bool{}
	for _, path := range pages {
		commandsOf(full.get(things.Replace(path)).body, found)
		commandsOf(empty.get(things.Replace(path)).body, found)
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
