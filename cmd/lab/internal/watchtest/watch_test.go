package watchtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

const (
	// root is the folder of the project.
	root = "../../../.."
	// patience is how long a series may take to be scraped twice and answered.
	patience = time.Minute
)

// notAlways are the metrics that alerts use and that are not there before something has an end, or
// while no authority is set.
func notAlways() []string {
	return []string{"waybill_expiring_soonest_seconds", "waybill_tls_certificate_end_timestamp_seconds", "waybill_gateway_certificate_orders_total"}
}

// program returns where a program of Prometheus is. Without it the test is named as not run, and
// .ci/run, which installs it, fails at a test that is not run.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("NOT RUN: %s is missing (Debian: apt-get install prometheus)", name)
	}
	return path
}

// TestRules asks promtool about the rules, by themselves and with made-up series.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "rules.yml"},
		{"test", "rules", "rules_test.yml"},
		{"check", "config", "--syntax-only", "prometheus.yml"},
	} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = filepath.Join(root, "deploy", "prometheus")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestEveryAlertIsTested compares the alerts of rules.yml with those that rules_test.yml expects.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	tests := read(t, "deploy/prometheus/rules_test.yml")
	for _, alert := range alerts(t) {
		if !strings.Contains(tests, `alertname="`+alert+`"`) {
			t.Errorf("no test expects the alert %s", alert)
		}
	}
}

// TestRunbook looks for the entry of each alert, with its four parts, and for entries without an alert.
func TestRunbook(t *testing.T) {
	t.Parallel()
	entries := make(map[string]string)
	for _, entry := range strings.Split(read(t, "docs/runbook.md"), "\n### ")[1:] {
		name, text, _ := strings.Cut(entry, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		entries[name] = text
	}
	for _, alert := range alerts(t) {
		for _, part := range []string{"**Meaning.**", "**First look.**", "**Cause.**", "**Cure.**"} {
			if strings.Count(entries[alert], part) != 1 {
				t.Errorf("docs/runbook.md: the entry of %s has not one %s", alert, part)
			}
		}
		delete(entries, alert)
	}
	for name := range entries {
		t.Errorf("docs/runbook.md has an entry %s, and there is no such alert", name)
	}
}

// TestWatch runs Waybill in both forms below a real Prometheus.
func TestWatch(t *testing.T) {
	t.Parallel()
	prometheus, promtool := program(t, "prometheus"), program(t, "promtool")
	site, err := stack.NewSite(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	routes, err := filepath.Abs(filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	for form, start := range map[string]func() (*stack.Stack, error){
		"sqlite, one process": func() (*stack.Stack, error) {
			return site.AllInOne(t.Context(), stack.Options{Routes: routes})
		},
		"postgres, services": func() (*stack.Stack, error) {
			return site.Split(t.Context(), stack.Options{Gateways: 1, NATSUsers: true, Settings: map[string]string{"WAYBILL_ROUTES_DIR": routes}})
		},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			running, err := start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(running.Died(), running.Close()); err != nil {
					t.Error(err)
				}
			})
			s := scrape(t, prometheus, running)
			s.linted(promtool, running)
			s.aliveBeforeTraffic()
			s.deliver(running)
			s.panels()
			s.rules()
		})
	}
}

// server is a Prometheus that scrapes a stack every second.
type server struct {
	*testing.T
	url string
}

// aliveBeforeTraffic checks that each metric of an alert is there before anything has happened: to
// Prometheus, a counter that appears with its first count has not increased.
func (s *server) aliveBeforeTraffic() {
	s.Helper()
	metric := regexp.MustCompile(`\bwaybill_[a-z_]+`)
	names := make(map[string]bool)
	for _, name := range metric.FindAllString(read(s.T, "deploy/prometheus/rules.yml"), -1) {
		names[name] = !slices.Contains(notAlways(), name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		// The requests that a service has not had yet have no counter: see the objective's rule.
		if names[name] && name != "waybill_http_requests_total" {
			s.answered("an alert's metric", "count("+name+")")
		}
	}
}

// deliver publishes events, and waits until they are delivered.
func (s *server) deliver(running *stack.Stack) {
	s.Helper()
	api := running.Client()
	defer api.Close()
	receiver, err := sink.New()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(receiver.Close)
	endpoint := receiver.Endpoint("watched")
	made, err := api.Register(s.Context(), client.Webhook{URL: endpoint.URL, Events: domain.EventTypes()})
	if err != nil {
		s.Fatal(err)
	}
	if err := endpoint.Trust(made.Secret); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	n := 0
	if err := stack.Await(ctx, func() (bool, error) {
		n++ // one at a time, so that every scrape meets new ones
		_, err := api.Publish(ctx, fmt.Appendf(nil, `{"id":"evt_%d","type":"shipment.created","data":{"shipmentId":"shp_%d"}}`, n, n))
		return n > 20, err
	}); err != nil {
		s.Fatal(err)
	}
}

// panels asks every expression of every dashboard, and wants an answer with a value.
func (s *server) panels() {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy", "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		s.Fatalf("no dashboard: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title, Type string
				Targets     []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			s.Fatalf("%s: %v", file, err)
		}
		for _, panel := range dashboard.Panels {
			if (panel.Type != "row") != (len(panel.Targets) > 0) {
				s.Errorf("%s, %s: a panel asks something, and a row nothing", filepath.Base(file), panel.Title)
			}
			for _, target := range panel.Targets {
				s.answered(filepath.Base(file)+", "+panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			}
		}
	}
}

// rules checks that each rule can be evaluated, and that no alert fires.
func (s *server) rules() {
	s.Helper()
	var out struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	s.await("evaluate the rules", func() error {
		if err := s.get("/api/v1/rules", &out); err != nil {
			return err
		}
		for _, group := range out.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" || rule.State == "firing" {
					return fmt.Errorf("%s is %q %s: %s", rule.Name, rule.Health, rule.State, rule.LastError)
				}
			}
		}
		return nil
	})
	if len(out.Groups) == 0 {
		s.Error("Prometheus has read no rule")
	}
}

// answered waits until an expression has a value.
func (s *server) answered(what, expression string) {
	s.Helper()
	s.await(what, func() error {
		var out struct{ Result []json.RawMessage }
		if err := s.get("/api/v1/query?"+values("query", expression), &out); err != nil {
			return err
		}
		if len(out.Result) == 0 {
			return fmt.Errorf("no value for %s", expression)
		}
		return nil
	})
}

// linted asks promtool about the metrics of each process.
func (s *server) linted(promtool string, running *stack.Stack) {
	s.Helper()
	for process := range running.Ops {
		metrics, err := running.Metrics(s.Context(), process)
		if err != nil {
			s.Fatal(err)
		}
		command := exec.CommandContext(s.Context(), promtool, "check", "metrics")
		command.Stdin = strings.NewReader(string(metrics))
		if out, err := command.CombinedOutput(); err != nil {
			s.Errorf("metrics of %s: %v\n%s", process, err, out)
		}
	}
}

func alerts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, match := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/prometheus/rules.yml"), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatal("rules.yml has no alert")
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
