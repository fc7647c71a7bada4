package main_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// callbacks asks a receiver for what it got.
func callbacks(t *testing.T, receiver string) []callback {
	t.Helper()
	var answer struct{ Data []callback }
	text := fetch(t, receiver+"/-/callbacks", "")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return answer.Data
}

type callback struct {
	Path     string
	Status   int
	Verified *bool
	Headers  map[string]string
	Body     string
}

func fetch(t *testing.T, url, key string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDevFromItsBanner(t *testing.T) {
	t.Parallel()
	i := dev(t)
	banner := i.out.String()
	key, err := os.ReadFile(filepath.Join(i.dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Waybill v0.0.0-test is running", "API        " + i.addresses.API, "NATS       " + i.addresses.NATS,
		"Metrics    " + i.addresses.Ops + "/metrics", "Receiver   " + i.addresses.Receiver,
		"Data       " + filepath.Join(i.dir, ".waybill"), "API key    " + strings.TrimSpace(string(key)),
	} {
		if !strings.Contains(banner, want) {
			t.Errorf("the banner lacks %q:\n%s", want, banner)
		}
	}
	if strings.Contains(banner, "\x1b[") {
		t.Error("colours go to what is no terminal")
	}
	if strings.Contains(i.err.String(), strings.TrimSpace(string(key))) {
		t.Error("the API key is in the log")
	}
	// The two commands are pasted as they are.
	commands := regexp.MustCompile(`(?m)^ {4}(waybill .*)$`).FindAllStringSubmatch(banner, -1)
	if len(commands) != 2 {
		t.Fatalf("the banner has %d commands:\n%s", len(commands), banner)
	}
	for _, command := range commands {
		shell := exec.CommandContext(t.Context(), "sh", "-c", command[1])
		shell.Dir = i.dir
		shell.Env = []string{"PATH=" + binaries + ":/usr/bin:/bin"}
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[1], err, out)
		}
	}
	eventually(t, func() error {
		for _, c := range callbacks(t, i.addresses.Receiver) {
			if c.Verified != nil && *c.Verified && c.Status == http.StatusOK && strings.Contains(c.Body, `"type":"shipment.delivered"`) {
				return nil
			}
		}
		return fmt.Errorf("no verified callback came:\n%s", &i.err)
	})
	metrics := fetch(t, i.addresses.Ops+"/metrics", "")
	for _, name := range []string{`waybill_build_info{goversion="go1.`, "go_goroutines", "process_resident_memory_bytes", "promhttp_metric_handler_requests_total"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	i.stop(t, syscall.SIGINT)
	if _, err := os.Stat(filepath.Join(i.dir, ".waybill", "addresses.json")); err == nil {
		t.Error("the addresses are still announced after the end")
	}
}

func TestDevKeepsKeysAndWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (*command, string) {
		c := prepare(t, dir, nil, "waybill", "dev", "--data", "d", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--receiver", "none")
		c.startDev(t)
		return c, regexp.MustCompile(`API key +(\S+)`).FindStringSubmatch(c.out.String())[1]
	}
	first, key := start()
	if !strings.Contains(first.out.String(), "waybill listen --forward-to") || strings.Contains(first.out.String(), "Receiver") {
		t.Errorf("banner without a receiver:\n%s", &first.out)
	}
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	must(t, dir, "trigger", "shipment.created", "--data", "d", "--id", "evt_kept")
	first.stop(t, syscall.SIGTERM)
	second, again := start()
	if again != key {
		t.Error("the API key is another one after a restart")
	}
	out := must(t, dir, "trigger", "shipment.created", "--data", "d", "--id", "evt_kept")
	if !strings.Contains(out, "duplicate") {
		t.Errorf("the event of before the restart is not known:\n%s", out)
	}
	second.stop(t, syscall.SIGTERM)
}

func TestDevSaysInOneSentenceWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	addr := taken.Addr().String()
	free := map[string]string{"--http": "127.0.0.1:0", "--ops": "127.0.0.1:0", "--nats": "127.0.0.1:0", "--receiver": "127.0.0.1:0"}
	for flag, name := range map[string]string{"--http": "HTTP", "--ops": "Ops", "--nats": "NATS", "--receiver": "Receiver"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			args := []string{"dev", flag, addr}
			for other, value := range free {
				if other != flag {
					args = append(args, other, value)
				}
			}
			code, stdout, stderr := waybill(t, t.TempDir(), args...)
			want := "waybill: " + name + " address " + addr + " is in use already\n  With free addresses: waybill " + strings.Join(args, " ") + " " + flag + " 127.0.0.1:"
			if code != 1 || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 2 || stdout != "" {
				t.Errorf("exit code %d, stdout %q, stderr\n%swant\n%s", code, stdout, stderr, want)
			}
		})
	}
}

// All addresses that are in use are told at once, with a command that starts.
func TestDevSaysAllThatIsInUseAtOnce(t *testing.T) {
	t.Parallel()
	var addrs []string
	for range 3 {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = taken.Close() })
		addrs = append(addrs, taken.Addr().String())
	}
	dir := t.TempDir()
	code, stdout, stderr := waybill(t, dir, "dev", "--http", addrs[0], "--ops", addrs[1], "--nats", addrs[2], "--receiver", "none")
	says := regexp.MustCompile(`^waybill: HTTP address (\S+), Ops address (\S+) and NATS address (\S+) are in use already\n  With free addresses: waybill (.+)\n$`).FindStringSubmatch(stderr)
	if code != 1 || stdout != "" || says == nil || !slices.Equal(says[1:4], addrs) {
		t.Fatalf("exit code %d, stdout %q, stderr\n%s", code, stdout, stderr)
	}
	c := prepare(t, dir, nil, "waybill", strings.Fields(says[4])...)
	c.startDev(t)
	c.stop(t, syscall.SIGTERM)

	// A key on the command line is not told again.
	code, _, stderr = waybill(t, t.TempDir(), "dev", "--http", addrs[0], "--ops", "127.0.0.1:0", "--nats=127.0.0.1:0", "--receiver", "none", "--admin-key=canary-"+strings.Repeat("x", 32))
	if code != 1 || strings.Contains(stderr, "canary") || !strings.Contains(stderr, "With free addresses: the same command with --http 127.0.0.1:") {
		t.Errorf("with a key: exit code %d, stderr\n%s", code, stderr)
	}
}

// startDev starts waybill dev, and waits for its banner.
func (c *command) startDev(t *testing.T) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.Contains(c.out.String(), "Ctrl-C stops it.") {
			return fmt.Errorf("no banner:\n%s", &c.err)
		}
		return nil
	})
}

func TestDevRefusesADirectoryInUse(t *testing.T) {
	t.Parallel()
	i := dev(t)
	code, stdout, stderr := waybill(t, i.dir, "dev", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--receiver", "none")
	want := fmt.Sprintf("waybill: data directory %s is in use by another waybill process (pid %d): stop it, or choose another directory with --data\n",
		filepath.Join(i.dir, ".waybill"), i.Process.Pid)
	if code != 1 || stderr != want || stdout != "" {
		t.Errorf("exit code %d, stderr\n%swant\n%s", code, stderr, want)
	}
}

// Routes that were asked for must be there and in order; otherwise nothing starts.
func TestDevRefusesRoutes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	args := []string{"dev", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--receiver", "none", "--routes"}
	want := "waybill: routes directory " + missing + " can't be read (no such file or directory): choose another directory with --routes or WAYBILL_ROUTES_DIR\n"
	if code, stdout, stderr := waybill(t, t.TempDir(), append(args, missing)...); code != 1 || stderr != want || stdout != "" {
		t.Errorf("exit code %d, stdout %q, stderr\n%swant\n%s", code, stdout, stderr, want)
	}
	routes := `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/healthz":{"get":{"operationId":"own",
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x"}}},
		"responses":{"200":{"description":"d"}}}}}}`
	if err := os.WriteFile(filepath.Join(dir, "a.oas.json"), []byte(routes), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := waybill(t, t.TempDir(), append(args, dir)...)
	if code != 1 || !strings.Contains(stderr, "a.oas.json: own: /paths/~1healthz/get/x-gateway-route: Waybill itself serves this path, as /healthz") || stdout != "" {
		t.Errorf("exit code %d, stdout %q, stderr\n%s", code, stdout, stderr)
	}
}

func TestDevRefusesADirectoryThatItCannotWriteTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path := dir; path != filepath.Dir(filepath.Dir(dir)) && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := prepare(t, dir, nil, "waybill", "dev", "--data", filepath.Join(dir, "d"))
	if os.Getuid() == 0 { // who may write everywhere
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	want := "waybill: data directory " + filepath.Join(dir, "d") + " can't be written to (permission denied): make it writable, or choose another with --data\n"
	if code := c.finish(t); code != 1 || c.err.String() != want {
		t.Errorf("exit code %d, stderr\n%swant\n%s", code, &c.err, want)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "receiver", "register", "--path", "/in/slow", "--delay", "20s")
	must(t, i.dir, "trigger", "shipment.created")
	eventually(t, func() error {
		if len(callbacks(t, i.addresses.Receiver)) == 0 {
			return fmt.Errorf("the callback is not in flight")
		}
		return nil
	})
	if err := i.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.Contains(i.err.String(), "attempts in flight are finished") {
			return fmt.Errorf("it does not stop in order:\n%s", &i.err)
		}
		return nil
	})
	// Somebody presses Ctrl-C until the process has ended. What comes within 200 ms of the first is that one.
	started, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = i.Wait()
	}()
	eventually(t, func() error {
		select {
		case <-ended:
			return nil
		default:
			return cmp.Or(i.Process.Signal(syscall.SIGTERM), errors.New("dev goes on"))
		}
	})
	if code := i.ProcessState.ExitCode(); code != 1 || time.Since(started) > 3*time.Second {
		t.Errorf("exit code %d after %s", code, time.Since(started))
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "receiver", "register", "--path", "/in/x", "--events", "shipment.exception")
	var answer struct {
		Events []struct {
			ID        string
			Duplicate bool
		}
	}
	out := must(t, i.dir, "trigger", "shipment.exception", "-o", "json", "--id", "evt_set", "--set", "severity=low",
		"--set", "location.city=Köln", "--set", "metadata.n=1.50", "--set", "metadata.list=[1,2]", "--set", "metadata.list.1=true")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Events) != 1 || answer.Events[0].ID != "evt_set" || answer.Events[0].Duplicate {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, i.dir, "trigger", "shipment.exception", "--id", "evt_plain")
	eventually(t, func() error {
		got := callbacks(t, i.addresses.Receiver)
		if len(got) != 2 {
			return fmt.Errorf("%d callbacks", len(got))
		}
		for _, c := range got {
			want := []string{`"score":0.1000`, `"big":9007199254740993`}
			if c.Headers["Webhook-Id"] == "evt_set" {
				want = append(want, `"severity":"low"`, `"city":"Köln"`, `"n":1.50`, `"list":[1,true]`)
			}
			for _, text := range want {
				if !strings.Contains(c.Body, text) {
					t.Errorf("%s lacks %s: %s", c.Headers["Webhook-Id"], text, c.Body)
				}
			}
		}
		return nil
	})
	out = must(t, i.dir, "trigger", "shipment.created", "--count", "50", "-o", "json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Events) != 50 {
		t.Errorf("%v: %s", err, out)
	}
	started := time.Now()
	if out = must(t, i.dir, "trigger", "shipment.created", "--count", "21", "--rate", "40"); out != "21 × shipment.created accepted\n" {
		t.Errorf("many events: %q", out)
	}
	if took := time.Since(started); took < 490*time.Millisecond {
		t.Errorf("21 events at 40/s took %s", took)
	}
	code, stdout, stderr := waybill(t, i.dir, "trigger", "shipment.created", "--key", strings.Repeat("w", 40), "--server", i.addresses.API)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "the API answers 401") || !strings.Contains(stderr, "WAYBILL_KEY") {
		t.Errorf("a wrong key: %d\n%s", code, stderr)
	}
}

func TestListenForwardsAndCleansUp(t *testing.T) {
	t.Parallel()
	i := dev(t)
	var mu sync.Mutex
	var got []*http.Request
	var bodies []string
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got, bodies = append(got, r), append(bodies, string(body))
	}))
	defer target.Close()
	key, err := os.ReadFile(filepath.Join(i.dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	webhooks := func() string { return fetch(t, i.addresses.API+"/v1/webhooks", strings.TrimSpace(string(key))) }
	c := prepare(t, i.dir, nil, "waybill", "listen", "--forward-to", target.URL+"/hooks", "--events", "shipment.delivered", "--secret", secretA)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.Contains(c.err.String(), "Ctrl-C stops it") {
			return fmt.Errorf("listen does not start:\n%s", &c.err)
		}
		return nil
	})
	if !strings.Contains(c.err.String(), secretA) || !strings.Contains(webhooks(), `"events":["shipment.delivered"]`) {
		t.Errorf("notes:\n%swebhooks: %s", &c.err, webhooks())
	}
	must(t, i.dir, "trigger", "shipment.delivered", "--id", "evt_forwarded")
	eventually(t, func() error {
		if !strings.Contains(c.out.String(), "200 shipment.delivered  evt_forwarded") {
			return fmt.Errorf("no line for the event: %s", &c.out)
		}
		return nil
	})
	mu.Lock()
	if len(got) != 1 || got[0].URL.Path != "/hooks" || got[0].Header.Get("Webhook-Signature") == "" || !strings.Contains(bodies[0], "evt_forwarded") {
		t.Errorf("forwarded: %v %q", got, bodies)
	}
	at, sig, body := got[0].Header.Get("Webhook-Timestamp"), got[0].Header.Get("Webhook-Signature"), bodies[0]
	mu.Unlock()
	verify := prepare(t, i.dir, nil, "waybill", "signature", "verify", "--secret", secretA, "--id", "evt_forwarded", "--timestamp", at, "--signature", sig)
	verify.Stdin = strings.NewReader(body)
	if verify.finish(t) != 0 {
		t.Errorf("what was forwarded does not verify:\n%s", &verify.out)
	}
	c.stop(t, syscall.SIGINT)
	if list := webhooks(); strings.TrimSpace(list) != "[]" {
		t.Errorf("webhooks that are left: %s", list)
	}
	if !strings.Contains(c.err.String(), "Webhook deleted.") {
		t.Errorf("notes:\n%s", &c.err)
	}
}

// Whoever reaches the listener's port must not reach the program behind it.
func TestListenPassesOnWhatIsSigned(t *testing.T) {
	t.Parallel()
	i := dev(t)
	var got atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(program.Close)
	c := prepare(t, i.dir, nil, "waybill", "listen", "--forward-to", strings.TrimPrefix(program.URL, "http://"), "--listen", "127.0.0.1:0")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.Contains(c.err.String(), "Ctrl-C stops it") {
			return fmt.Errorf("listen does not start:\n%s", &c.err)
		}
		return nil
	})
	hooks := read[[]struct{ URL string }](t, i, "", "webhooks", "list")
	if len(hooks) != 1 {
		t.Fatalf("webhooks: %v", hooks)
	}
	for _, headers := range []http.Header{{}, {"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)}, "Webhook-Signature": {"v1,AAAA"}}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hooks[0].URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = headers
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || got.Load() != 0 {
			t.Errorf("a request with %v was answered %d, and %d came to the program", headers, response.StatusCode, got.Load())
		}
	}
	eventually(t, func() error {
		if n := strings.Count(c.err.String(), "401 for a request that is not signed with the webhook's secret"); n != 2 {
			return fmt.Errorf("it was told %d times:\n%s", n, &c.err)
		}
		return nil
	})
	must(t, i.dir, "trigger", "shipment.created")
	eventually(t, func() error {
		if got.Load() != 1 || !strings.Contains(c.out.String(), " 200 shipment.created") {
			return fmt.Errorf("%d came to the program:\n%s", got.Load(), &c.out)
		}
		return nil
	})
	c.stop(t, syscall.SIGINT)
}

func TestListenWithoutAProgramPrints(t *testing.T) {
	t.Parallel()
	i := dev(t)
	c := prepare(t, i.dir, nil, "waybill", "listen")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.Contains(c.err.String(), "Ctrl-C stops it") {
			return fmt.Errorf("listen does not start:\n%s", &c.err)
		}
		return nil
	})
	must(t, i.dir, "trigger", "shipment.created", "--id", "evt_printed")
	eventually(t, func() error {
		for _, want := range []string{" 200 shipment.created", "webhook-id: evt_printed", "webhook-signature: v1,", `"type":"shipment.created"`} {
			if !strings.Contains(c.out.String(), want) {
				return fmt.Errorf("it lacks %q:\n%s", want, &c.out)
			}
		}
		return nil
	})
	// A webhook that can't be deleted at the end is named, with the command that does it.
	hooks := read[[]struct{ ID string }](t, i, "", "webhooks", "list")
	if len(hooks) != 1 {
		t.Fatalf("webhooks: %v", hooks)
	}
	i.stop(t, syscall.SIGTERM)
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	want := "webhooks delete " + hooks[0].ID + " --server " + i.addresses.API
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(c.err.String(), hooks[0].ID+" could not be deleted") || !strings.Contains(c.err.String(), want) {
		t.Errorf("exit code %d; the notes should have %q:\n%s", code, want, &c.err)
	}
}

// What others took by default gives way; what somebody asked for does not.
func TestDevTakesAnotherPortForItsReceiver(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:8090")
	if err == nil {
		t.Cleanup(func() { _ = taken.Close() })
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	} // else something on this machine has it already
	c := prepare(t, t.TempDir(), nil, "waybill", "dev", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	says := regexp.MustCompile(`Receiver +http://127\.0\.0\.1:(8\d+)  \(open it in a browser; 127\.0\.0\.1:8090 is in use\)`)
	eventually(t, func() error {
		if found := says.FindStringSubmatch(c.out.String()); len(found) < 2 || found[1] == "8090" {
			return fmt.Errorf("the banner does not say so:\n%s%s", &c.out, &c.err)
		}
		return nil
	})
	c.stop(t, syscall.SIGTERM)
	code, stdout, stderr := waybill(t, t.TempDir(), "dev", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--receiver", "127.0.0.1:8090")
	if code != 1 || stdout != "" || !strings.Contains(stderr, "Receiver address 127.0.0.1:8090 is in use already\n  With free addresses: ") {
		t.Errorf("when it was asked for: %d\n%s%s", code, stdout, stderr)
	}
}

func TestDevTellsEachAttempt(t *testing.T) {
	t.Parallel()
	loud, quiet := dev(t), dev(t, "WAYBILL_QUIET=true")
	for _, i := range []*installation{loud, quiet} {
		must(t, i.dir, "receiver", "register", "--path", "/in/flaky", "--status", "503", "--times", "1")
		must(t, i.dir, "trigger", "shipment.created", "--id", "evt_told")
	}
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d 503 shipment\.created +evt_told → 127\.0\.0\.1:\d+ [\d.]+ m?s again in [\d.]+ m?s$`)
	eventually(t, func() error {
		if !line.MatchString(loud.out.String()) {
			return fmt.Errorf("no line tells the attempt:\n%s", &loud.out)
		}
		return nil
	})
	eventually(t, func() error {
		if len(callbacks(t, quiet.addresses.Receiver)) == 0 {
			return errors.New("no attempt was made")
		}
		return nil
	})
	must(t, loud.dir, "trigger", "shipment.created", "--count", "500")
	eventually(t, func() error {
		if !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d … and \d+ more in a second, \d+ of them not delivered$`).MatchString(loud.out.String()) {
			return fmt.Errorf("a burst is not folded:\n%s", &loud.out)
		}
		return nil
	})
	if n := strings.Count(loud.out.String(), "shipment.created"); n > 200 {
		t.Errorf("%d lines for a burst of 500", n)
	}
	if strings.Contains(quiet.out.String(), "evt_told") {
		t.Errorf("--quiet tells all the same:\n%s", &quiet.out)
	}
}

func TestReceiverAlone(t *testing.T) {
	t.Parallel()
	i := dev(t)
	c := prepare(t, t.TempDir(), nil, "waybill", "receiver", "--receiver", "127.0.0.1:0")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if !strings.HasPrefix(c.out.String(), "Receiver at http://127.0.0.1:") {
			return fmt.Errorf("it does not start:\n%s", &c.err)
		}
		return nil
	})
	url := strings.TrimSpace(strings.TrimPrefix(c.out.String(), "Receiver at "))
	must(t, i.dir, "receiver", "register", "--receiver-url", url)
	must(t, i.dir, "trigger", "shipment.created")
	verified := func(n int) func() error {
		return func() error {
			got := callbacks(t, url)
			if len(got) != n {
				return fmt.Errorf("callbacks: %+v", got)
			}
			for _, c := range got {
				if c.Verified == nil || !*c.Verified {
					return fmt.Errorf("does not verify: %+v", c)
				}
			}
			return nil
		}
	}
	eventually(t, verified(1))
	// Registered again it is the same webhook, and verifies as before.
	again := must(t, i.dir, "receiver", "register", "--receiver-url", url, "--events", "shipment.created")
	if list := read[[]struct {
		ID     string
		Events []string
	}](t, i, "", "webhooks", "list"); len(list) != 1 || !strings.Contains(again, list[0].ID) || len(list[0].Events) != 1 {
		t.Errorf("registered twice:\n%s%+v", again, list)
	}
	must(t, i.dir, "trigger", "shipment.created")
	eventually(t, verified(2))
	must(t, i.dir, "receiver", "register", "--receiver-url", url, "--path", "/in/other")
	if list := read[[]any](t, i, "", "webhooks", "list"); len(list) != 2 {
		t.Errorf("another path is another webhook: %v", list)
	}
	must(t, i.dir, "health", url+"/-/healthz")
	c.stop(t, syscall.SIGTERM)
}

func TestTracesReachFromPublishToCallback(t *testing.T) {
	t.Parallel()
	traces := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			traces <- struct{}{}
		}
	}))
	t.Cleanup(collector.Close)
	i := dev(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	must(t, i.dir, "receiver", "register")
	must(t, i.dir, "trigger", "shipment.created")
	eventually(t, func() error {
		for _, c := range callbacks(t, i.addresses.Receiver) {
			if regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(c.Headers["Traceparent"]) {
				return nil
			}
		}
		return fmt.Errorf("no callback with a traceparent came")
	})
	i.stop(t, syscall.SIGTERM)
	if len(traces) == 0 {
		t.Error("the last traces were not sent")
	}
}
