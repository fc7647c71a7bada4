package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"waybill.dev/shared/bus/bustest"
)

func TestServicesNameEverythingThatIsMissing(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"waybill-api": `waybill-api: WAYBILL_NATS_URL is required: set it in the environment or by --nats-url
waybill-api: WAYBILL_DATABASE_URL is required: set it in the environment or by --database-url
waybill-api: WAYBILL_ENCRYPTION_KEY is required: set it in the environment or in the file of WAYBILL_CONFIG
`,
		"waybill-dispatcher": `waybill-dispatcher: WAYBILL_NATS_URL is required: set it in the environment or by --nats-url
waybill-dispatcher: WAYBILL_DATABASE_URL is required: set it in the environment or by --database-url
waybill-dispatcher: WAYBILL_ENCRYPTION_KEY is required: set it in the environment or in the file of WAYBILL_CONFIG
`,
		"waybill-gateway": `waybill-gateway: WAYBILL_NATS_URL is required: set it in the environment or by --nats-url
waybill-gateway: WAYBILL_DATABASE_URL is required: set it in the environment or by --database-url
waybill-gateway: WAYBILL_ENCRYPTION_KEY is required: set it in the environment or in the file of WAYBILL_CONFIG
`,
	} {
		c := prepare(t, t.TempDir(), nil, program)
		if code := c.finish(t); code != 1 || c.err.String() != want || c.out.String() != "" {
			t.Errorf("exit code %d, stderr\n%swant\n%s", code, &c.err, want)
		}
		c = prepare(t, t.TempDir(), nil, program, "--nonsense")
		if code := c.finish(t); code != 2 || !strings.Contains(c.err.String(), "Run '"+program+" --help' for usage.") {
			t.Errorf("unknown flag: exit code %d, stderr\n%s", code, &c.err)
		}
		c = prepare(t, t.TempDir(), nil, program, "--version")
		if code := c.finish(t); code != 0 || c.out.String() != program+" v0.0.0-test\n" {
			t.Errorf("version: exit code %d, stdout %q", code, &c.out)
		}
		c = prepare(t, t.TempDir(), nil, program, "--help")
		if code := c.finish(t); code != 0 || !strings.Contains(c.out.String(), "WAYBILL_HTTP_ADDR") {
			t.Errorf("help: exit code %d, stdout %q, stderr %q", code, &c.out, &c.err)
		}
	}
}

func TestServicesRefusePendingMigrations(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	dir := t.TempDir()
	env := []string{
		"WAYBILL_DATABASE_URL=sqlite:" + dir + "/w.db", "WAYBILL_NATS_URL=" + server.URL(), "WAYBILL_ADMIN_KEY=" + strings.Repeat("k", 40),
		"WAYBILL_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "WAYBILL_HTTP_ADDR=127.0.0.1:0", "WAYBILL_OPS_ADDR=127.0.0.1:0",
	}
	for _, program := range []string{"waybill-api", "waybill-dispatcher", "waybill-gateway"} {
		c := prepare(t, dir, env, program)
		want := program + ": the database has pending migrations: apply them with `waybill migrate up`\n"
		if code := c.finish(t); code != 1 || c.err.String() != want {
			t.Errorf("exit code %d, stderr\n%swant\n%s", code, &c.err, want)
		}
	}
	migrations := func(args ...string) (list []struct {
		Name      string
		AppliedAt *string
	}) {
		c := prepare(t, dir, env, "waybill", append([]string{"migrate"}, args...)...)
		if code := c.finish(t); code != 0 {
			t.Fatalf("migrate %v: exit code %d\n%s", args, code, &c.err)
		}
		if err := json.Unmarshal([]byte(c.out.String()), &list); err != nil {
			t.Fatalf("migrate %v: %v: %s", args, err, &c.out)
		}
		return list
	}
	if list := migrations("status", "-o", "json"); len(list) == 0 || list[0].AppliedAt != nil {
		t.Errorf("status before: %+v", list)
	}
	all := len(migrations("status", "-o", "json"))
	if list := migrations("up", "-o", "json"); len(list) != all || list[0].AppliedAt == nil {
		t.Errorf("up: %+v", list)
	}
	if list := migrations("up", "-o", "json"); len(list) != 0 {
		t.Errorf("up again: %+v", list)
	}
	if list := migrations("status", "-o", "json"); len(list) != all || list[all-1].AppliedAt == nil {
		t.Errorf("status after: %+v", list)
	}
	table := prepare(t, dir, env, "waybill", "migrate", "status")
	table.finish(t)
	if !strings.HasPrefix(table.out.String(), "MIGRATION") {
		t.Errorf("status as a table: %s", &table.out)
	}
	for _, program := range []string{"waybill-api", "waybill-dispatcher", "waybill-gateway"} {
		c := prepare(t, dir, env, program)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			var line struct{ Msg, HTTP, Service string }
			for text := range strings.Lines(c.err.String()) {
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatalf("a line of the log is no JSON: %s", text)
				}
				if line.Msg == "started" && strings.HasPrefix(line.HTTP, "http://127.0.0.1:") {
					return nil
				}
			}
			return fmt.Errorf("%s does not start:\n%s", program, &c.err)
		})
		c.stop(t, syscall.SIGTERM)
	}
}

// A service that is told to stop while it waits for its database has not failed.
func TestServicesStopWhileTheyWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	env := []string{
		"WAYBILL_DATABASE_URL=postgres://waybill@127.0.0.1:1/waybill?sslmode=disable", "WAYBILL_NATS_URL=" + server.URL(), "WAYBILL_ADMIN_KEY=" + strings.Repeat("k", 40),
		"WAYBILL_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "WAYBILL_HTTP_ADDR=127.0.0.1:0", "WAYBILL_OPS_ADDR=127.0.0.1:0",
	}
	for _, program := range []string{"waybill-api", "waybill-dispatcher", "waybill-gateway"} {
		c := prepare(t, t.TempDir(), env, program)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if strings.Contains(c.err.String(), "the database can't be reached; trying again") {
				return nil
			}
			return fmt.Errorf("%s does not wait:\n%s", program, &c.err)
		})
		c.stop(t, syscall.SIGTERM)
	}
}

// started returns where a service that was started answers.
func started(t *testing.T, c *command) (url string) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		for text := range strings.Lines(c.err.String()) {
			var line struct{ Msg, HTTP string }
			if err := json.Unmarshal([]byte(text), &line); err == nil && line.Msg == "started" {
				url = line.HTTP
				return nil
			}
		}
		return fmt.Errorf("it does not start:\n%s", &c.err)
	})
	return url
}

// The first key of an installation is the admin key; later it may be left out, and then opens nothing.
func TestAdminKeyIsRequiredWhileThereIsNoOther(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	dir, admin := t.TempDir(), strings.Repeat("k", 40)
	env := []string{
		"WAYBILL_DATABASE_URL=sqlite:" + dir + "/w.db", "WAYBILL_NATS_URL=" + server.URL(),
		"WAYBILL_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "WAYBILL_HTTP_ADDR=127.0.0.1:0", "WAYBILL_OPS_ADDR=127.0.0.1:0",
	}
	if c := prepare(t, dir, env, "waybill", "migrate", "up"); c.finish(t) != 0 {
		t.Fatalf("migrate: %s", &c.err)
	}
	c := prepare(t, dir, env, "waybill-api")
	want := "waybill-api: WAYBILL_ADMIN_KEY is required while the database has no API key: set it in the environment or by --admin-key\n"
	if code := c.finish(t); code != 1 || c.err.String() != want {
		t.Errorf("exit code %d, stderr\n%swant\n%s", code, &c.err, want)
	}

	call := func(method, url, key, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	c = prepare(t, dir, append(env, "WAYBILL_ADMIN_KEY="+admin), "waybill-api")
	status, text := call(http.MethodPost, started(t, c)+"/v1/accounts", admin, `{"name":"acme-freight"}`)
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated || made.Key == "" {
		t.Fatalf("make an account: %d, %v", status, err)
	}
	c.stop(t, syscall.SIGTERM)

	c = prepare(t, dir, env, "waybill-api")
	url := started(t, c)
	for key, want := range map[string]int{made.Key: http.StatusOK, admin: http.StatusUnauthorized} {
		if status, _ := call(http.MethodGet, url+"/v1/who-am-i", key, ""); status != want {
			t.Errorf("without an admin key: status %d, want %d", status, want)
		}
	}
	c.stop(t, syscall.SIGTERM)
}
