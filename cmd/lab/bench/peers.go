package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

// peer is another gateway, which does the same in the same run.
type peer struct {
	program string
	args    []string // before the name of its configuration
	config  string
	atLeast float64 // of its rate that Waybill is to reach
}

// setting is what a peer's configuration is made of.
type setting struct {
	HTTP, HTTPS, BackEnd, Cert, Key, Dir, StaticPath, StaticText string
}

// peers are the other gateways that can be measured. Waybill is to reach the rate of those in Go, and half that of nginx,
// which is written in C.
func peers() []peer {
	return []peer{{
		program: "caddy", args: []string{"run", "--adapter", "caddyfile", "--config"}, atLeast: 1,
		config: `{
	admin off
	auto_https off
}
(routes) {
	respond {{.StaticPath}} "{{.StaticText}}"
	reverse_proxy {{.BackEnd}}
}
http://{{.HTTP}} {
	import routes
}
https://{{.HTTPS}} {
	tls {{.Cert}} {{.Key}}
	import routes
}
`,
	}, {
		program: "nginx", args: []string{"-c"}, atLeast: 0.5,
		config: `daemon off; worker_processes auto; error_log stderr crit; pid {{.Dir}}/pid;
events { worker_connections 4096; }
http {
	access_log off; keepalive_requests 1000000000; proxy_max_temp_file_size 0;
	client_body_temp_path {{.Dir}}/body; proxy_temp_path {{.Dir}}/proxy; fastcgi_temp_path {{.Dir}}/fastcgi; uwsgi_temp_path {{.Dir}}/uwsgi; scgi_temp_path {{.Dir}}/scgi;
	upstream back { server {{.BackEnd}}; keepalive 256; keepalive_requests 1000000000; }
	server {
		listen {{.HTTP}} backlog=1024; listen {{.HTTPS}} ssl;
		ssl_certificate {{.Cert}}; ssl_certificate_key {{.Key}};
		location = {{.StaticPath}} { default_type text/plain; return 200 "{{.StaticText}}"; }
		location / { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; }
	}
}
`,
	}}
}

// chosenPeers are those of a list of names, separated by commas.
func chosenPeers(list string) ([]peer, error) {
	if list == "" {
		return nil, nil
	}
	return choose(peers(), list, func(p peer) string { return p.program })
}

// openPeer starts a peer, which answers on loopback, by HTTP and HTTPS.
func (c *crossing) openPeer(ctx context.Context, p peer, n int) (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "waybill-bench-"+p.program+"-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", p.program, err)
	}
	c.undo = append(c.undo, func() error { return os.RemoveAll(dir) })
	s := setting{BackEnd: c.backAddress, Cert: c.cert, Key: c.key, Dir: dir, StaticPath: load.StaticPath, StaticText: load.StaticText}
	if s.HTTP, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	if s.HTTPS, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := template.Must(template.New(p.program).Parse(p.config)).Execute(&text, s); err != nil {
		return nil, fmt.Errorf("configure %s: %w", p.program, err)
	}
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, fmt.Errorf("configure %s: %w", p.program, err)
	}
	running, end := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, p.program, append(slices.Clone(p.args), file)...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOME="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // for the workers of nginx to end, too
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", p.program, err)
	}
	c.groups = append(c.groups, meter.Group{Name: p.program, Pid: cmd.Process.Pid})
	c.add(n, p.program, s.HTTP, s.HTTPS, "")
	return func() error {
		end()
		_ = cmd.Wait() // it was interrupted
		return nil
	}, errors.Join(c.answers(ctx, s.HTTP, false), c.answers(ctx, s.HTTPS, true))
}

// freeAddress returns one that nobody listens at now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// answers waits until there are answers at an address.
func (c *crossing) answers(ctx context.Context, address string, tls bool) error {
	deadline := time.Now().Add(stalled)
	return stack.Poll(ctx, watchEvery, func() (bool, error) {
		p, err := c.caller.Ask(load.Ask{Address: address, TLS: tls, Path: load.StaticPath, Connections: 1, For: watchEvery})
		if err == nil && p.Events > 0 {
			return true, nil
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("nothing answers at %s: %w %s", address, err, p.Fault)
		}
		return false, nil
	})
}

// certify writes the certificate that all show, which no caller checks.
func (c *crossing) certify() error {
	dir, err := os.MkdirTemp("", "waybill-bench-certificate-")
	if err != nil {
		return fmt.Errorf("make the folder of the certificate: %w", err)
	}
	c.undo = append(c.undo, func() error { return os.RemoveAll(dir) })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	c.cert, c.key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return errors.Join(
		os.WriteFile(c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600),
		os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
