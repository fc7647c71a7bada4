package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	rows := []struct {
		args []string
		code int
		says string // on stderr
	}{
		{[]string{"version"}, 0, ""},
		{[]string{"--help"}, 0, ""},
		{[]string{"trigger", "--help"}, 0, ""},
		{[]string{"nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"tirgger"}, 2, "Did you mean this?"},
		{[]string{"version", "more"}, 2, "unknown command"},
		{[]string{"version", "--nonsense"}, 2, "unknown flag: --nonsense"},
		{[]string{"version", "-o", "xml"}, 2, "must be table or json"},
		{[]string{"dev", "more"}, 2, "unknown command"},
		{[]string{"dev", "--http", "nonsense"}, 1, `WAYBILL_HTTP_ADDR is "nonsense", which is not host:port`},
		{[]string{"dev", "--config", "missing"}, 1, "read WAYBILL_CONFIG: open missing: no such file or directory"},
		{[]string{"trigger"}, 2, "give one event type: shipment.created, shipment.in_transit"},
		{[]string{"trigger", "shipment.lost"}, 2, "give one event type"},
		{[]string{"trigger", "shipment.created"}, 1, "no API key: give one with --key or WAYBILL_KEY"},
		{[]string{"trigger", "shipment.created", "--count", "0"}, 2, "--count must be from 1"},
		{[]string{"trigger", "shipment.created", "--rate", "-1"}, 2, "--rate must be 0 or more"},
		{[]string{"trigger", "shipment.created", "--id", "a.b"}, 2, "--id must be 1 to 64"},
		{[]string{"trigger", "shipment.created", "--set", "x"}, 2, "--set takes path=value"},
		{[]string{"trigger", "shipment.created", "--set", "parcels.9.weight=1"}, 2, `"9" is not an index of an array of 2`},
		{[]string{"trigger", "shipment.created", "--key", "k", "--server", "http://127.0.0.1:1"}, 1, "no answer from http://127.0.0.1:1"},
		{[]string{"trigger", "shipment.created", "--key", "k", "--server", "127.0.0.1:1"}, 1, "Is it running? Start it with: waybill dev"},
		{[]string{"trigger", "shipment.created", "--key", "k", "--server", "nonsense"}, 2, "--server must be a URL such as"},
		{[]string{"trigger", "shipment.created", "--key", "k", "--server", "waybill.example.com"}, 2, "--server must be a URL such as"},
		{[]string{"trigger", "shipment.created", "--key", "k", "--server", "http://a:b@127.0.0.1:1"}, 2, "--server must be a URL such as"},
		{[]string{"trigger", "shipment.created", "--key", "k", "--url", "http://127.0.0.1:1"}, 2, "name the installation with --server or WAYBILL_SERVER"},
		{[]string{"--version"}, 0, ""},
		{[]string{"listen"}, 1, "no API key"},
		{[]string{"listen", "--forward-to", "ftp://127.0.0.1"}, 2, "--forward-to must be a URL"},
		{[]string{"listen", "--secret", "whsec_x"}, 2, "--secret: "},
		{[]string{"listen", "--forward-to", "http://127.0.0.1:1", "--events", "x"}, 2, `"x" is not an event type`},
		{[]string{"receiver", "nonsense"}, 2, "unknown command"},
		{[]string{"receiver", "register", "--path", "in"}, 2, "--path must begin with /"},
		{[]string{"buckets"}, 2, "give one of its commands: create, delete, get, list, update"},
		{[]string{"buckets", "nonsense"}, 2, `unknown command "nonsense" for "waybill buckets"`},
		{[]string{"keys", "list", "partners"}, 2, "the arguments are BUCKET CONSUMER: 1 given, 2 needed"},
		{[]string{"webhooks", "list"}, 1, "no API key: give one with --key or WAYBILL_KEY"},
		{[]string{"webhooks", "list", "--key", "k", "--server", "http://127.0.0.1:1"}, 1, "no answer from http://127.0.0.1:1"},
		{[]string{"signature"}, 2, "give one of its commands: sign, verify"},
		{[]string{"signature", "sign", "--id", "a"}, 2, "--secret (or WAYBILL_WEBHOOK_SECRET) is required"},
		{[]string{"signature", "sign", "--secret", "whsec_x", "--id", "a"}, 2, "--secret: not a signing secret"},
		{[]string{"migrate"}, 2, "give one of its commands: restored, status, up"},
		{[]string{"migrate", "up"}, 1, "WAYBILL_DATABASE_URL is required: set it in the environment or by --database-url"},
		{[]string{"health", "http://127.0.0.1:1"}, 1, "no answer from http://127.0.0.1:1/readyz: dial tcp 127.0.0.1:1: connect: connection refused\n  Is it running? Start it with: waybill dev"},
		{[]string{"demo", "--server", "http://127.0.0.1:1"}, 2, "--server needs --key and --nats-url too"},
		{[]string{"demo", "--url", "http://127.0.0.1:1"}, 2, "--server needs --key and --nats-url too"},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := waybill(t, t.TempDir(), row.args...)
			if code != row.code || !strings.Contains(stderr, row.says) {
				t.Errorf("exit code %d, want %d; stderr, which should say %q:\n%s", code, row.code, row.says, stderr)
			}
			if code != 0 && stdout != "" {
				t.Errorf("stdout of a command that failed:\n%s", stdout)
			}
			if code == 2 && !strings.Contains(stderr, "--help' for usage.") {
				t.Errorf("where usage is explained is not said:\n%s", stderr)
			}
		})
	}
}

func TestHelpHasExamplesAndFits(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "demo", "dev", "trigger", "listen", "receiver", "receiver register", "migrate", "migrate up", "migrate status", "migrate restored",
		"backup", "restore", "doctor", "check",
		"health", "mcp", "mcp inspect", "routes", "routes check", "routes list", "signature", "signature sign", "signature verify", "version",
	} {
		help := must(t, t.TempDir(), append(strings.Fields(command), "--help")...)
		if !strings.Contains(help, "Examples:\n  waybill") && !strings.Contains(help, "Examples:\n  printf") {
			t.Errorf("%q has no example", command)
		}
		for line := range strings.Lines(help) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%q: a line of its help is longer than 80 characters:\n%s", command, line)
			}
		}
	}
}

var flagBegins = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// Every flag of a process can be given in the environment. Of the commands that call an
// installation, those can that say where it is and how it answers.
func TestFlagsAndTheirVariables(t *testing.T) {
	t.Parallel()
	flags := func(command string) map[string]bool {
		_, text, _ := strings.Cut(must(t, t.TempDir(), append(strings.Fields(command), "--help")...), "\nFlags:\n")
		has := make(map[string]bool)
		begins := flagBegins.FindAllStringSubmatchIndex(text, -1)
		for n, at := range begins {
			end := len(text)
			if n+1 < len(begins) {
				end = begins[n+1][0]
			}
			if name := text[at[2]:at[3]]; name != "help" {
				has[name] = strings.Contains(text[at[0]:end], "(WAYBILL_")
			}
		}
		return has
	}
	for _, command := range []string{"demo", "dev", "receiver", "migrate up"} {
		for flag, variable := range flags(command) {
			if !variable {
				t.Errorf("%s: no variable is named for --%s", command, flag)
			}
		}
	}
	for _, command := range []string{"trigger", "listen", "receiver register", "mcp inspect", "health", "webhooks update", "webhooks create", "keys create", "deliveries list", "accounts recover"} {
		for flag, variable := range flags(command) {
			if want := slices.Contains([]string{"server", "key", "data", "output"}, flag); variable != want {
				t.Errorf("%s: --%s has a variable: %v", command, flag, variable)
			}
		}
	}
	c := prepare(t, t.TempDir(), []string{"WAYBILL_OUTPUT=json"}, "waybill", "version")
	if c.finish(t) != 0 || !json.Valid([]byte(c.out.String())) {
		t.Errorf("WAYBILL_OUTPUT=json: %s", &c.out)
	}
	c = prepare(t, t.TempDir(), []string{"WAYBILL_OUTPUT=json"}, "waybill", "version", "-o", "table")
	if c.finish(t) != 0 || !strings.HasPrefix(c.out.String(), "waybill v0.0.0-test (go1.") {
		t.Errorf("a flag does not win over its variable: %s", &c.out)
	}
	c = prepare(t, t.TempDir(), []string{"WAYBILL_OUTPUT=xml"}, "waybill", "version")
	if c.finish(t) != 2 || !strings.Contains(c.err.String(), "WAYBILL_OUTPUT is not a value for --output") {
		t.Errorf("WAYBILL_OUTPUT=xml: %s", &c.err)
	}
}

func TestCompletionKnowsEventTypes(t *testing.T) {
	t.Parallel()
	want := []string{"shipment.created", "shipment.in_transit", "shipment.delivered", "shipment.exception", ":4"}
	for _, args := range [][]string{{"__complete", "trigger", ""}, {"__complete", "listen", "--events", ""}} {
		if diff := cmp.Diff(want, strings.Fields(must(t, t.TempDir(), args...))); diff != "" {
			t.Errorf("%v (-want +got):\n%s", args, diff)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		must(t, t.TempDir(), "completion", shell)
	}
}

const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, secrets, id, timestamp, body, want string }{
		{"V1", secretA, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"V2", secretB, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553", `{"email":"test@example.com","username":"test_user"}`, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="},
		{
			"V4", secretA + "," + secretB, "evt_01J0000000000000000000000A", "1768469400",
			`{"type":"shipment.delivered","timestamp":"2026-01-15T09:30:00Z","data":{"shipment_id":"shp_01"}}`,
			"v1,JtDJh1lMUw64/16EMS7t+VeXc+W1rn+CE9/6H2WmNPo= v1,jmhyNmO7ewAzNc97WtInE/y3C/LXFeSiUv5KiiHxw2U=",
		},
		{"V5", secretA, "evt_01J0000000000000000000000B", "1768469400", `{"city":"Zürich","note":"naïve ✓"}`, "v1,Y5lUqvKEcctZTtRP1KQyEwky9LUcZXADleS/3nlK9F8="},
		{"V6", secretA, "evt_01J0000000000000000000000C", "1768469400", "", "v1,DD3J3BrzE2i0flzf+BB5hSZTpuun3eD2AY6L5RxTEJA="},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			sign := prepare(t, t.TempDir(), []string{"WAYBILL_WEBHOOK_SECRET=" + row.secrets}, "waybill", "signature", "sign", "--id", row.id, "--timestamp", row.timestamp)
			sign.Stdin = strings.NewReader(row.body)
			want := "webhook-id: " + row.id + "\nwebhook-timestamp: " + row.timestamp + "\nwebhook-signature: " + row.want + "\n"
			if code := sign.finish(t); code != 0 || sign.out.String() != want {
				t.Errorf("sign: %d\n%s%s", code, &sign.out, &sign.err)
			}
			file := filepath.Join(t.TempDir(), "body")
			if err := os.WriteFile(file, []byte(row.body), 0o600); err != nil {
				t.Fatal(err)
			}
			verify := []string{"signature", "verify", "--id", row.id, "--timestamp", row.timestamp, "--signature", row.want, "--body", file}
			for secret := range strings.SplitSeq(row.secrets, ",") {
				out := must(t, t.TempDir(), append(verify, "--at", row.timestamp, "--secret", secret)...)
				if !strings.HasSuffix(out, "\nverified\n") {
					t.Errorf("verify:\n%s", out)
				}
				must(t, t.TempDir(), append(verify, "--at", row.timestamp, "--secret", strings.TrimPrefix(secret, "whsec_"))...)
			}
			code, out, stderr := waybill(t, t.TempDir(), append(verify, "--secret", secretA, "-o", "json")...)
			if code != 1 || !strings.Contains(out, "timestamp too old") || !strings.Contains(out, `"verified": false`) || stderr != "" {
				t.Errorf("verify now, years later: %d\n%s%s", code, out, stderr)
			}
		})
	}
}

// A v1a signature is checked with a public key, or with a key set in a file or at a URL.
func TestVerifyAsymmetric(t *testing.T) {
	t.Parallel()
	const public = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	const set = `{"keys":[{"kty":"RSA","kid":"x"},{"kty":"OKP","crv":"Ed25519","kid":"k","x":"1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4"}]}`
	dir := t.TempDir()
	file, body := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "body")
	for name, text := range map[string]string{file: set, body: `{"test": 2432232314}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks.json" {
			_, _ = w.Write([]byte(set))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	verify := []string{
		"signature", "verify", "--id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", "1614265330", "--at", "1614265330", "--body", body,
		"--signature", "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
	}
	for _, how := range [][]string{{"--public-key", public}, {"--jwks", file}, {"--jwks", server.URL + "/jwks.json"}} {
		if out := must(t, dir, append(verify, how...)...); !strings.Contains(out, "matches public key 1 of 1") || !strings.HasSuffix(out, "\nverified\n") {
			t.Errorf("%v:\n%s", how, out)
		}
	}
	for _, row := range []struct {
		how  []string
		code int
		want string
	}{
		{[]string{"--secret", secretA}, 1, "by v1a alone"},
		{[]string{"--public-key", secretA}, 2, "must begin with whpk_"},
		{[]string{"--jwks", server.URL + "/other"}, 1, "404"},
		{[]string{"--jwks", body}, 1, "✗ signature"},
		{nil, 2, "--jwks is required"},
	} {
		code, out, stderr := waybill(t, dir, append(verify, row.how...)...)
		if code != row.code || !strings.Contains(out+stderr, row.want) {
			t.Errorf("%v: %d\n%s%s", row.how, code, out, stderr)
		}
	}
}

func TestVerifySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	code, out, stderr := waybill(t, t.TempDir(), "signature", "verify", "--secret", secretB, "--id", "msg_1", "--timestamp", "1614265330",
		"--signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "--at", "1614265330", "--body", os.DevNull)
	if code != 1 || !strings.Contains(out, "✗ signature of id.timestamp.body") || !strings.Contains(out, "another secret") || !strings.HasSuffix(out, "\nnot verified\n") {
		t.Errorf("%d\n%s%s", code, out, stderr)
	}
	_, out, _ = waybill(t, t.TempDir(), "signature", "verify", "--secret", secretB, "--body", os.DevNull)
	if !strings.Contains(out, "✗ webhook-id") || !strings.Contains(out, "missing header: webhook-signature") {
		t.Errorf("without headers:\n%s", out)
	}
}
