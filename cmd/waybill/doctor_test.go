package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

type reportAnswer struct {
	Faults, Warnings int
	Findings         []struct{ Group, Check, Level, Found, Meaning, Action string }
	Settings         []struct{ Name, Value, Source string }
}

func (r *reportAnswer) level(check string) string {
	for _, f := range r.Findings {
		if f.Check == check {
			return f.Level
		}
	}
	return ""
}

// diagnose runs a command that reports as JSON.
func diagnose(t *testing.T, dir string, env []string, code int, args ...string) (r reportAnswer) {
	t.Helper()
	c := prepare(t, dir, env, "waybill", append(args, "-o", "json")...)
	if got := c.finish(t); got != code {
		t.Errorf("%v exits with %d, want %d:\n%s%s", args, got, code, &c.out, &c.err)
	}
	if err := json.Unmarshal([]byte(c.out.String()), &r); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, &c.out, &c.err)
	}
	return r
}

// files lists what is in a directory, with sizes.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestDoctorOfAnAllInOne(t *testing.T) {
	t.Parallel()
	i := dev(t)
	data := filepath.Join(i.dir, ".waybill")
	must(t, i.dir, "receiver", "register")
	before := files(t, data)
	r := diagnose(t, i.dir, []string{"WAYBILL_RETENTION=100h"}, 0, "doctor")
	for check, level := range map[string]string{
		"settings": "ok", "processes": "ok", "versions": "ok", "dispatchers": "ok", "database": "ok", "migrations": "ok", "secrets": "ok",
		"bus": "ok", "EVENTS": "ok", "events": "ok", "unsettled": "ok", "clock": "ok", "kept": "ok", "connections": "not applicable", "tls": "not applicable",
	} {
		if got := r.level(check); got != level {
			t.Errorf("%s is %q, want %q", check, got, level)
		}
	}
	if after := files(t, data); !slices.Equal(before, after) {
		t.Errorf("the data directory had %v and has %v", before, after)
	}
	if !slices.ContainsFunc(r.Settings, func(s struct{ Name, Value, Source string }) bool {
		return s.Name == "WAYBILL_RETENTION" && s.Value == "100h" && s.Source == "environment"
	}) {
		t.Errorf("the settings are %v", r.Settings)
	}
	table := must(t, i.dir, "doctor", "--verbose")
	for _, want := range []string{"SETTING", "\nRunning parts\n", "\nWhat ends soon\n", "  ✓ migrations      all "} {
		if !strings.Contains(table, want) {
			t.Errorf("the report lacks %q:\n%s", want, table)
		}
	}
	for line := range strings.Lines(must(t, i.dir, "doctor")) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line is longer than 80 characters:\n%s", line)
		}
	}
	i.stop(t, syscall.SIGTERM)
	if r := diagnose(t, i.dir, nil, 0, "doctor"); r.level("processes") != "warning" || r.level("bus") != "not applicable" {
		t.Errorf("of one that does not run: %+v", r.Findings)
	}
	if err := os.WriteFile(filepath.Join(data, "encryption.key"), []byte("MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := diagnose(t, i.dir, nil, 1, "doctor"); r.level("secrets") != "fault" || r.Faults != 1 {
		t.Errorf("with another encryption key: %+v", r.Findings)
	}
	if r := diagnose(t, t.TempDir(), nil, 1, "doctor"); r.level("database") != "fault" {
		t.Errorf("where nothing is: %+v", r.Findings)
	}
}

func TestCheckOfAReceiver(t *testing.T) {
	t.Parallel()
	var agents []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents = append(agents, r.UserAgent())
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(server.Close)
	env := []string{"WAYBILL_EGRESS_HTTP=true", "WAYBILL_EGRESS_ALLOW=127.0.0.0/8"}
	r := diagnose(t, t.TempDir(), env, 1, "check", server.URL+"/in", "--secret", secretA)
	if r.level("test event") != "fault" || r.level("tls") != "warning" || len(agents) != 2 || agents[0] != "Waybill/v0.0.0-test" {
		t.Errorf("%+v, asked by %v", r, agents)
	}
	if r := diagnose(t, t.TempDir(), nil, 1, "check", "https://127.0.0.1/in"); r.level("url") != "fault" {
		t.Errorf("%+v", r)
	}
	c := prepare(t, t.TempDir(), env, "waybill", "check", server.URL, "--secret", "-", "-o", "json")
	c.Stdin = strings.NewReader(secretA + "\n")
	if code := c.finish(t); code != 1 || !strings.Contains(c.out.String(), "test event") {
		t.Errorf("%d\n%s%s", code, &c.out, &c.err)
	}
	if code, _, stderr := waybill(t, t.TempDir(), "check", server.URL, "--secret", "whsec_x"); code != 2 || !strings.Contains(stderr, "--secret: ") {
		t.Errorf("%d\n%s", code, stderr)
	}
	// Beside a `waybill dev` its rules hold: loopback and http are allowed.
	i := dev(t)
	if r := diagnose(t, i.dir, nil, 0, "check", i.addresses.Receiver+"/somewhere"); r.level("url") != "ok" || r.level("test event") == "" {
		t.Errorf("%+v", r)
	}
}

func TestBackupOfARunningDev(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "receiver", "register")
	var made struct {
		File      string
		Migration int
		Files     []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(must(t, i.dir, "backup", "b.tar", "-o", "json")), &made); err != nil || made.File != "b.tar" || made.Migration == 0 || len(made.Files) != 3 {
		t.Errorf("%+v, %v", made, err)
	}
	if code, _, stderr := waybill(t, i.dir, "backup", "b.tar"); code != 1 || !strings.Contains(stderr, "overwrites nothing") {
		t.Errorf("again: %d %s", code, stderr)
	}
	if code, _, stderr := waybill(t, i.dir, "restore", "b.tar"); code != 1 || !strings.Contains(stderr, "is in use by another waybill process (pid ") {
		t.Errorf("over a running one: %d %s", code, stderr)
	}
	if out := must(t, i.dir, "restore", "b.tar", "--data", "new"); !strings.Contains(out, "waybill.db") {
		t.Errorf("restore:\n%s", out)
	}
	c := prepare(t, i.dir, []string{"WAYBILL_DATABASE_URL=postgres://waybill@127.0.0.1:1/waybill"}, "waybill", "backup")
	if code := c.finish(t); code != 1 || !strings.Contains(c.err.String(), "docs/backup.md") {
		t.Errorf("of Postgres: %d %s", code, &c.err)
	}
	if code, _, stderr := waybill(t, t.TempDir(), "backup"); code != 1 || !strings.Contains(stderr, "name the data directory with --data") {
		t.Errorf("of nothing: %d %s", code, stderr)
	}
}
