package docstest_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waybill.dev/shared/certificate/certificatetest"
)

const patience = 60 * time.Second

// TestCommands runs the sh blocks of each page, as somebody would who started `waybill
// dev` in the folder where they are.
func TestCommands(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "waybill")
	buildWaybill(t, binary)
	ran := 0
	for _, page := range pages(t) {
		text, n := script(t, page)
		if n == 0 {
			continue
		}
		ran++
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			run(t, page, text, binary)
		})
	}
	if ran == 0 {
		t.Error("no page has commands to run")
	}
}

func buildWaybill(t *testing.T, binary string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "waybill.dev/cmd/waybill")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build waybill: %v\n%s", err, out)
	}
}

func run(t *testing.T, page, text, binary string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "waybill")); err != nil {
		t.Fatal(err)
	}
	var about subject
	switch page {
	case "docs/gateway.md":
		about = shop(t, dir)
	case "docs/deployments.md", "docs/domains.md":
		copyTree(t, dir, filepath.Join("docs", "examples", "deployment"), filepath.Join("docs", "examples", "deployment"))
	case "docs/certificates.md":
		about = withTLS(t, dir)
	}
	addresses := start(t, dir, about)
	// All at once: a free one may begin like another that is shipped.
	text = replacer(addresses).Replace(text)
	environment := clean()
	if page != "README.md" { // which says where to take the key from
		key, err := os.ReadFile(filepath.Join(dir, ".waybill", "admin.key"))
		if err != nil {
			t.Fatalf("read the API key: %v", err)
		}
		environment = append(environment, "WAYBILL_ADMIN_KEY="+strings.TrimSpace(string(key)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", text)
	shell.Dir, shell.Env = dir, environment
	if out, err := shell.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// subject is what a page has run besides a plain `waybill dev`.
type subject struct {
	args, environment []string
	addresses         map[string]string // free ones by those in the text
}

// shop is what the page on gateway routes has the reader start: the example in a folder of
// its own, and a back end for it.
func shop(t *testing.T, dir string) subject {
	t.Helper()
	copyTree(t, dir, "shop", filepath.Join("docs", "examples", "gateway"))
	backend := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "shop", "backend"))))
	t.Cleanup(backend.Close)
	return subject{
		args: []string{"--routes", "shop"}, environment: []string{"EXAMPLE_BACKEND=" + backend.URL},
		addresses: map[string]string{"127.0.0.1:9000": backend.Listener.Addr().String()},
	}
}

// withTLS is what the page on client certificates has the reader start.
func withTLS(t *testing.T, dir string) subject {
	t.Helper()
	server := certificatetest.NewCA(t, "gateway", func(c *x509.Certificate) {
		c.DNSNames, c.KeyUsage = []string{"*.gateway.localhost"}, c.KeyUsage|x509.KeyUsageDigitalSignature
	})
	key, err := x509.MarshalPKCS8PrivateKey(server.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"server.pem": server.PEM(), "server.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return subject{args: []string{"--tls", freeAddress(t), "--tls-cert", "server.pem", "--tls-key", "server.key"}}
}

// copyTree copies a folder of the project to where a page has it.
func copyTree(t *testing.T, dir, to, from string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join(root, from))); err != nil {
		t.Fatalf("copy the example: %v", err)
	}
}

// start runs `waybill dev` in dir until the test ends, and returns the addresses that it
// listens on by those that it would have had by default.
func start(t *testing.T, dir string, about subject) map[string]string {
	t.Helper()
	addresses := map[string]string{
		"127.0.0.1:8080": freeAddress(t), "127.0.0.1:8090": freeAddress(t),
		"127.0.0.1:4222": freeAddress(t), "127.0.0.1:9090": freeAddress(t),
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{
		"dev", "--http", addresses["127.0.0.1:8080"], "--receiver", addresses["127.0.0.1:8090"],
		"--nats", addresses["127.0.0.1:4222"], "--ops", addresses["127.0.0.1:9090"],
	}, about.args...)
	dev := exec.CommandContext(context.WithoutCancel(t.Context()), "bin/waybill", args...)
	dev.Dir, dev.Env, dev.Stdout, dev.Stderr = dir, append(clean(), about.environment...), log, log
	maps.Copy(addresses, about.addresses)
	if err := dev.Start(); err != nil {
		t.Fatalf("start waybill dev: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM) // if it ended already, that is said next
		select {
		case err := <-ended:
			if err != nil {
				said, _ := os.ReadFile(log.Name())
				t.Errorf("waybill dev ended with %v:\n%s", err, said)
			}
		case <-time.After(patience):
			_ = dev.Process.Kill()
			t.Error("waybill dev did not end")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ready := false; !ready; {
		ready = answers(ctx, "http://"+addresses["127.0.0.1:8080"]+"/readyz")
		if ctx.Err() != nil {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("waybill dev is not ready:\n%s", said)
		}
	}
	return addresses
}

// answers reports whether url answers with 200, and takes a moment when it does not.
func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return true
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
	return false
}

func replacer(by map[string]string) *strings.Replacer {
	pairs := make([]string, 0, 2*len(by))
	for old, replaced := range by {
		pairs = append(pairs, old, replaced)
	}
	return strings.NewReplacer(pairs...)
}

// ports counts the ports that freeAddress has tried, from a random one on. So no two tests of this process get one port,
// though neither has begun to listen.
var ports = func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(6_700))
	return &n
}()

// freeAddress returns an address of loopback that nothing listens on. Its port is below those that the system
// hands out by itself (32768 and more) and above those of package stack, so nobody takes it before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.FormatInt(26_000+ports.Add(1)%6_700, 10))
		if err == nil {
			address := listener.Addr().String()
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("there is no free port between 26000 and 32700")
	return ""
}

// clean is the environment without settings of a Waybill that may run beside.
func clean() []string {
	var list []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "WAYBILL_") && !strings.HasPrefix(variable, "OTEL_") {
			list = append(list, variable)
		}
	}
	return list
}

// TestGoSnippets compiles the blocks of Go that are whole files.
func TestGoSnippets(t *testing.T) {
	t.Parallel()
	compiled := 0
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if b.language != "go" || !strings.HasPrefix(b.text, "package ") {
				continue
			}
			compiled++
			compile(t, page, b)
		}
	}
	if compiled == 0 {
		t.Error("no page has a whole file of Go")
	}
}

// compile builds a file as if it stood in a package of this module.
func compile(t *testing.T, page string, b block) {
	t.Helper()
	file, overlay := filepath.Join(t.TempDir(), "snippet.go"), filepath.Join(t.TempDir(), "overlay.json")
	place, err := filepath.Abs(filepath.Join("snippet", "snippet.go"))
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{file: []byte(b.text), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./snippet").CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %v\n%s", page, b.line, err, out)
	}
}
