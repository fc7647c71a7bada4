package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func checkDemo(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for text, count := range map[string]int{
		"verified by the standard-webhooks library": 6, "data byte for byte as published": 6,
		"webhook-signature    v1,": 6, "answered 200": 4, "answered 503": 2, "attempt 3, answered 200": 1,
		"4 of 4 delivered and verified, one of them on its third attempt": 1, "\x1b": 0,
	} {
		if n := strings.Count(stdout, text); n != count {
			t.Errorf("%q comes %d times, want %d:\n%s", text, n, count, stdout)
		}
	}
	for _, how := range []string{"over REST", "over NATS", "in a batch", "fails twice"} {
		if !strings.Contains(stderr, how) {
			t.Errorf("the notes lack %q:\n%s", how, stderr)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	// A running installation that other commands are told of is none of its business.
	c := prepare(t, t.TempDir(), []string{"TMPDIR=" + temp, "WAYBILL_SERVER=http://127.0.0.1:1", "WAYBILL_HTTP_ADDR=nonsense"}, "waybill", "demo")
	checkDemo(t, c.finish(t), c.out.String(), c.err.String())
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("it left %v behind, %v", left, err)
	}
}

func TestDemoOnAnInstallation(t *testing.T) {
	t.Parallel()
	i := dev(t)
	key, err := os.ReadFile(filepath.Join(i.dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(key))
	for range 2 {
		code, stdout, stderr := waybill(t, t.TempDir(), "demo", "--server", i.addresses.API, "--key", secret, "--nats-url", i.addresses.NATS)
		checkDemo(t, code, stdout, stderr)
	}
	if list := fetch(t, i.addresses.API+"/v1/webhooks", secret); strings.TrimSpace(list) != "[]" {
		t.Errorf("webhooks that are left: %s", list)
	}
	code, stdout, stderr := waybill(t, t.TempDir(), "demo", "--server", i.addresses.API, "--key", strings.Repeat("w", 40), "--nats-url", i.addresses.NATS)
	if code != 1 || strings.Contains(stdout, "4 of 4") || !strings.Contains(stderr, "the API answers 401") {
		t.Errorf("with a wrong key: %d\n%s%s", code, stdout, stderr)
	}
}
