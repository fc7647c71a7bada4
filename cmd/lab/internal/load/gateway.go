package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// StaticText is what the static route of a gateway, and of the bare proxy, answers.
const StaticText = "The parcel is on its way."

// StaticPath is the path of that route; all others lead to the back end, which answers LargePath with 1 MiB.
const (
	StaticPath = "/static"
	LargePath  = "/large"
)

const largeSize = 1 << 20

// Opened is where a process listens.
type Opened struct {
	Address    string `json:"address"`
	TLSAddress string `json:"tlsAddress"` // empty: no TLS
}

// Open has a back end listen; its answers have so many bytes.
func (c *Child) Open(size int) (Opened, error) {
	var o Opened
	err := c.call(struct {
		Size int `json:"size"`
	}{size}, &o)
	return o, err
}

// proxied is where a bare proxy leads to, and the files of its certificate.
type proxied struct {
	BackEnd string `json:"backEnd"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
}

// Proxy has a bare proxy listen that leads to a back end: nothing but net/http and its
// reverse proxy. Without a certificate it listens for HTTP alone.
func (c *Child) Proxy(backEnd, cert, key string) (Opened, error) {
	var o Opened
	err := c.call(proxied{backEnd, cert, key}, &o)
	return o, err
}

// Ask is what a caller asks for, again and again.
type Ask struct {
	Address     string        `json:"address"`
	TLS         bool          `json:"tls"` // with any certificate
	Path        string        `json:"path"`
	Host        string        `json:"host"` // empty: the address
	Key         string        `json:"key"`  // empty: none
	Connections int           `json:"connections"`
	For         time.Duration `json:"for"`
}

// Ask has a caller ask to the end. What is no 200 was refused.
func (c *Child) Ask(a Ask) (Published, error) {
	var p Published
	err := c.call(a, &p)
	return p, err
}

// backEnd answers every request with the same JSON, or the large one. It knows as much of HTTP/1.1 as proxies
// send for a GET: no body.
func backEnd(_ context.Context, order struct {
	Size int `json:"size"`
},
) (Opened, error) {
	small, large := jsonOf(order.Size), jsonOf(largeSize)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return Opened{}, fmt.Errorf("open the back end: %w", err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answers(conn, small, large)
		}
	}()
	return Opened{Address: l.Addr().String()}, nil
}

// jsonOf returns an answer whose body has so many bytes.
func jsonOf(size int) []byte {
	text := `{"text":"` + strings.Repeat("x", max(0, size-len(`{"text":""}`))) + `"}`
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text)
}

func answers(conn net.Conn, small, large []byte) {
	defer conn.Close()
	answer := small
	for in := bufio.NewReaderSize(conn, 8<<10); ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if bytes.HasPrefix(line, []byte("GET "+LargePath+" ")) {
				answer = large
			}
			continue
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
		answer = small
	}
}

func proxy(_ context.Context, order proxied) (Opened, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return Opened{}, fmt.Errorf("open the proxy: %w", err)
	}
	to := &url.URL{Scheme: "http", Host: order.BackEnd}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
	}
	mux := http.NewServeMux()
	mux.Handle("/", forward)
	mux.HandleFunc(StaticPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, StaticText)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 40 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	opened := Opened{Address: l.Addr().String()}
	if order.Cert == "" {
		return opened, nil
	}
	secure, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return Opened{}, fmt.Errorf("open the proxy: %w", err)
	}
	go func() { _ = server.ServeTLS(secure, order.Cert, order.Key) }()
	opened.TLSAddress = secure.Addr().String()
	return opened, nil
}

func ask(ctx context.Context, a Ask) (Published, error) {
	request := "GET " + a.Path + " HTTP/1.1\r\nHost: " + cmp.Or(a.Host, a.Address) + "\r\nUser-Agent: bench\r\nAccept: */*\r\n"
	if a.Key != "" {
		request += "Authorization: Bearer " + a.Key + "\r\n"
	}
	request += "\r\n"
	return Repeat{Address: a.Address, TLS: a.TLS, Request: []byte(request), Connections: a.Connections, For: a.For}.Run(ctx)
}
