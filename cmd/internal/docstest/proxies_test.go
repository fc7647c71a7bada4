package docstest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"waybill.dev/shared/certificate/certificatetest"
	agreed "waybill.dev/shared/tunnel"
)

// proxy is a program whose configuration docs/tls.md has.
type proxy struct {
	name string // of its blocks
	// config is the whole file of the block, and args what starts the program with that file.
	config func(block, dir, address string) string
	args   func(file, dir string) []string
}

func proxies() []proxy {
	return []proxy{
		{
			"nginx",
			func(block, dir, address string) string {
				block = strings.Replace(block, "listen 443 ", "listen "+address+" ", 1)
				return fmt.Sprintf("pid %[1]s/pid;\nerror_log %[1]s/log;\nevents {}\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\n"+
					"fastcgi_temp_path %[1]s/f;\nuwsgi_temp_path %[1]s/u;\nscgi_temp_path %[1]s/s;\n%[2]s}\n", dir, block)
			},
			func(file, dir string) []string {
				return []string{"-c", file, "-p", dir, "-e", filepath.Join(dir, "log"), "-g", "daemon off;"}
			},
		},
		{
			"caddyfile",
			func(block, dir, address string) string {
				_, port, _ := strings.Cut(address, ":")
				block = strings.Replace(block, "hooks.example.com {", "https://hooks.example.com:"+port+" {\n\tbind 127.0.0.1\n\ttls "+dir+"/fullchain.pem "+dir+"/privkey.pem", 1)
				return "{\n\tadmin off\n\tauto_https off\n}\n" + block
			},
			func(file, _ string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
		},
		{
			"haproxy",
			func(block, _, address string) string {
				return strings.Replace(block, "bind :443 ", "bind "+address+" ", 1)
			},
			func(file, _ string) []string { return []string{"-db", "-f", file} },
		},
	}
}

// TestProxies starts each proxy with what docs/tls.md says of it, before a `waybill dev`.
func TestProxies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	buildWaybill(t, filepath.Join(dir, "bin", "waybill"))
	ca := certificatetest.NewCA(t, "hooks", func(c *x509.Certificate) {
		c.DNSNames, c.KeyUsage = []string{"hooks.example.com"}, c.KeyUsage|x509.KeyUsageDigitalSignature
	})
	addresses := start(t, dir, subject{environment: []string{"WAYBILL_TRUSTED_PROXIES=127.0.0.1/32"}})
	key, err := os.ReadFile(filepath.Join(dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			program := strings.TrimSuffix(p.name, "file")
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("NOT RUN: %s is missing (Debian: apt-get install --no-install-recommends nginx-light caddy haproxy)", program)
			}
			v := visitor{key: strings.TrimSpace(string(key)), address: runProxy(t, p, program, addresses["127.0.0.1:8080"], ca)}
			roots := x509.NewCertPool()
			roots.AddCert(ca.Certificate)
			v.client = http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}}
					return dialer.DialContext(ctx, network, v.address)
				},
			}}
			t.Cleanup(v.client.CloseIdleConnections)
			v.visit(t, p.name)
		})
	}
}

// runProxy starts the program until the test ends, and returns where it listens.
func runProxy(t *testing.T, p proxy, program, waybill string, ca *certificatetest.Issuer) string {
	t.Helper()
	dir, address := t.TempDir(), freeAddress(t)
	key, err := x509.MarshalPKCS8PrivateKey(ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	var config string
	for _, b := range blocks(t, "docs/tls.md") {
		if b.language == p.name {
			config = p.config(replacer(map[string]string{"127.0.0.1:8080": waybill, "/etc/ssl/hooks": dir}).Replace(b.text), dir, address)
		}
	}
	for name, text := range map[string]string{"config": config, "fullchain.pem": ca.PEM() + private, "privkey.pem": private} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	command := exec.CommandContext(t.Context(), program, p.args(filepath.Join(dir, "config"), dir)...)
	command.Env = append(os.Environ(), "HOME="+dir)
	command.Stdout, command.Stderr, command.WaitDelay = &said, &said, 10*time.Second
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the context of the test has ended
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, said.String())
		}
	})
	for deadline := time.Now().Add(patience); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen", program)
		}
	}
}

// visitor is a caller in front of a proxy, from an address that is not the proxy's.
type visitor struct {
	client       http.Client
	key, address string
}

// do asks again after a 503, as a producer does: the machine may be busy.
func (v visitor) do(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	for n := 1; ; n++ {
		response := v.once(t, method, path, body)
		if response.StatusCode != http.StatusServiceUnavailable || n > mostRefusals {
			return response
		}
		<-time.After(200 * time.Millisecond)
	}
}

// mostRefusals is how often a visitor asks again.
const mostRefusals = 20

func (v visitor) once(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	_, port, _ := strings.Cut(v.address, ":")
	r, err := http.NewRequestWithContext(t.Context(), method, "https://hooks.example.com:"+port+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", "192.0.2.1") // a lie
	response, err := v.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func (v visitor) visit(t *testing.T, name string) {
	made := v.do(t, http.MethodPost, "/v1/webhooks", `{"url":"http://127.0.0.1:1/`+name+`","events":["shipment.created"],"active":false}`)
	if want := "https://hooks.example.com"; made.StatusCode != http.StatusCreated || !strings.HasPrefix(made.Header.Get("Location"), want) {
		t.Errorf("a webhook: %s, Location %q, want %s…", made.Status, made.Header.Get("Location"), want)
	}
	if made.ProtoMajor != 2 {
		t.Errorf("the proxy speaks %s", made.Proto)
	}
	audit, err := io.ReadAll(v.do(t, http.MethodGet, "/v1/accounts/default/audit-logs?action=create-webhook&limit=1", "").Body)
	if err != nil || !bytes.Contains(audit, []byte(`"127.0.0.7"`)) || bytes.Contains(audit, []byte("192.0.2.1")) {
		t.Errorf("the caller is not 127.0.0.7 in the audit log: %v\n%s", err, audit)
	}
	var batch strings.Builder
	for i := range 32 { // of 250 KiB
		fmt.Fprintf(&batch, `,{"id":"%s_%d","type":"shipment.created","data":{"shipmentId":"shp_1","x":"%s"}}`, name, i, strings.Repeat("x", 250<<10))
	}
	if sent := v.do(t, http.MethodPost, "/v1/events", "["+batch.String()[1:]+"]"); sent.StatusCode != http.StatusAccepted {
		said, _ := io.ReadAll(sent.Body)
		t.Errorf("a large batch: %s\n%.300s", sent.Status, said)
	}
	v.follow(t, name)
	v.tunnel(t, name)
}

// tunnel connects as the agent of a tunnel. On the connection the gateway is the client, and begins.
func (v visitor) tunnel(t *testing.T, name string) {
	t.Helper()
	made := v.do(t, http.MethodPost, "/v1/accounts/default/tunnels", `{"name":"`+name+`"}`)
	var shown struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(made.Body).Decode(&shown); err != nil || shown.Token == "" {
		t.Fatalf("a tunnel: %s, %v", made.Status, err)
	}
	secure, ok := v.client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the visitor has a %T", v.client.Transport)
	}
	_, port, _ := strings.Cut(v.address, ":")
	socket, answer, err := websocket.Dial(t.Context(), "wss://hooks.example.com:"+port+agreed.ConnectPath, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{ // without HTTP/2, which has no upgrades
			TLSClientConfig: &tls.Config{RootCAs: secure.TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}, DialContext: secure.DialContext,
		}},
		Subprotocols: []string{agreed.Protocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + shown.Token}},
	})
	if err != nil {
		if answer != nil && answer.Body != nil {
			_ = answer.Body.Close()
		}
		t.Fatalf("connect a tunnel's agent: %v", err)
	}
	defer func() { _ = socket.CloseNow() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const want = "PRI * HTTP/2.0\r\n" // how a client begins HTTP/2
	preface := make([]byte, len(want))
	if _, err := io.ReadFull(websocket.NetConn(ctx, socket, websocket.MessageBinary), preface); err != nil || string(preface) != want {
		t.Errorf("the gateway begins with %q, %v, want %q", preface, err, want)
	}
}

// follow reads news: a line comes when an event was published, not when a buffer is full.
func (v visitor) follow(t *testing.T, name string) {
	t.Helper()
	live := v.do(t, http.MethodGet, "/v1/live", "")
	if live.StatusCode != http.StatusOK {
		t.Fatalf("news: %s", live.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(live.Body); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	// News of many events at once have no ids, so one event is not enough. What a proxy keeps comes
	// much later: a comment of some bytes comes every 15 seconds.
	late, next := time.After(patience), time.NewTicker(time.Second)
	defer next.Stop()
	for i := 0; ; i++ {
		v.do(t, http.MethodPost, "/v1/events", fmt.Sprintf(`{"id":"%s_news_%d","type":"shipment.created","data":{"shipmentId":"shp_1"}}`, name, i))
		for waiting := true; waiting; {
			select {
			case line, open := <-lines:
				if strings.Contains(line, name+"_news_") {
					return
				}
				if !open {
					t.Fatal("the news ended")
				}
			case <-next.C:
				waiting = false
			case <-late:
				t.Fatal("the news did not come through")
			}
		}
	}
}
