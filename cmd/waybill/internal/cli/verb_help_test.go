package cli_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"waybill.dev/cmd/waybill/internal/cli"
	"waybill.dev/cmd/waybill/internal/verb"
)

func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	rows := []struct {
		words        []string
		target, want string
	}{
		{[]string{"buckets", "get", ""}, "/v1/accounts/northwind/key-buckets", "one\ntwo\n:4\n"},
		{[]string{"keys", "roll", "partners", ""}, "/v1/accounts/northwind/key-buckets/partners/consumers", "one\ntwo\n:4\n"},
		{[]string{"keys", "get", "partners", "acme", ""}, atKeys + "?key-format=none", "id-1\nid-2\n:4\n"},
		{[]string{"webhooks", "update", ""}, "/v1/webhooks", "id-1\nid-2\n:4\n"},
		{[]string{"variables", "list", ""}, "/v1/accounts/northwind/projects", "one\ntwo\n:4\n"},
		{[]string{"variables", "delete", "parcels", "feature/a", ""}, atVariables, "one\ntwo\n:4\n"},
		{[]string{"deployments", "list", ""}, "/v1/accounts/northwind/projects", "one\ntwo\n:4\n"},
		{[]string{"deployments", "log", "d", ""}, "/v1/deployments/d/builds", "id-1\nid-2\n:4\n"},
		{[]string{"deploy", ".", "--project", ""}, "/v1/accounts/northwind/projects", "one\ntwo\n:4\n"},
		{[]string{"buckets", "create", ""}, "", ":4\n"},
		{[]string{"events", "publish", ""}, "", ":0\n"},
		{[]string{"events", "list", "--type", ""}, "", "shipment.created\nshipment.in_transit\nshipment.delivered\nshipment.exception\nwaybill.webhook.failing\nwaybill.webhook.recovered\nwaybill.webhook.circuit_opened\nwaybill.webhook.disabled\nwaybill.delivery.exhausted\nwaybill.domain.contested\nwaybill.domain.moved\n:4\n"},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.words, " "), func(t *testing.T) {
			t.Parallel()
			var got []asked
			var out, notes bytes.Buffer
			url := api(t, http.StatusOK, `{"data":[{"name":"one","id":"id-1"},{"name":"two","id":"id-2"}]}`, &got)
			last := len(row.words) - 1
			args := append([]string{"waybill", "__complete"}, row.words[:2]...)
			args = append(args, "--server", url, "--key", apiKey)
			args = append(args, row.words[2:]...)
			if cli.Main("test", args, nil, &out, &notes) != 0 || out.String() != row.want {
				t.Errorf("completes %q to\n%s%swant\n%s", row.words[last], &out, &notes, row.want)
			}
			if row.target != "" && (len(got) != 1 || got[0].Target != row.target) {
				t.Errorf("asked %v, want %s", got, row.target)
			}
		})
	}
}

// The names of deployments are those of all projects: there is no list of them.
func TestCompletionOfDeployments(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"deployments", "get"}, {"deployments", "delete"}, {"deployments", "builds"}, {"deployments", "log"}, {"deployments", "redeploy"},
		{"deployments", "calls"}, {"deployments", "statistics"}, {"environments", "get"}, {"logs"},
	} {
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			t.Parallel()
			var got []asked
			var out, notes bytes.Buffer
			url := api(t, http.StatusOK, `{"data":[{"name":"one"},{"name":"two"}]}`, &got)
			args := append(append([]string{"waybill", "__complete"}, words...), "--server", url, "--key", apiKey, "")
			if cli.Main("test", args, nil, &out, &notes) != 0 || out.String() != "one\ntwo\none\ntwo\n:4\n" {
				t.Errorf("completes to\n%s%s", &out, &notes)
			}
			var targets []string
			for _, one := range got {
				targets = append(targets, strings.TrimPrefix(one.Target, "/v1/accounts/northwind/projects"))
			}
			if strings.Join(targets, " ") != " /one/deployments /two/deployments" {
				t.Errorf("asked %q", targets)
			}
		})
	}
}

func TestHelpOfVerbs(t *testing.T) {
	t.Parallel()
	var commands [][]string
	for _, noun := range verb.Nouns() {
		commands = append(commands, []string{noun.Name})
		for _, v := range noun.Verbs {
			commands = append(commands, []string{noun.Name, v.Name})
		}
	}
	commands = append(commands, []string{"deploy"}, []string{"deployments", "redeploy"}, []string{"deployments", "log"})
	for _, command := range commands {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			t.Parallel()
			var out, notes bytes.Buffer
			if code := cli.Main("test", append(append([]string{"waybill"}, command...), "--help"), nil, &out, &notes); code != 0 || notes.Len() > 0 {
				t.Fatalf("exit code %d: %s", code, &notes)
			}
			help := out.String()
			if !strings.Contains(help, "Examples:\n  ") || !strings.Contains(help, "\n  waybill "+strings.Join(command, " ")) {
				t.Errorf("there is no example of it:\n%s", help)
			}
			for line := range strings.Lines(help) {
				if strings.HasPrefix(line, `Use "`) {
					continue // the library's last line, as long as the command's name makes it
				}
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
					t.Errorf("a line is longer than 80 characters:\n%s", line)
				}
			}
		})
	}
}
