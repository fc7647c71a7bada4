package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	api "waybill.dev/services/api"
	"waybill.dev/shared/body"
)

// counted is a body of which it is counted how much was read.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// While bodies have used all their memory, no route reads one: neither of the API's, nor of the console's pages,
// nor of the forms that are open to all.
func TestEveryBodyIsReadWithinTheMemory(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	const limit = 64 << 10
	memory := body.NewMemory(limit, prometheus.NewRegistry())
	r.options = func(o *api.Options) { o.Memory = memory }
	r.start()
	b := r.browser().signIn(adminKey)
	lease := memory.Lease()
	if _, err := lease.Buffer(limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lease.Release)

	refused := 0
	send := func(method, path, media string) {
		t.Helper()
		path = parameter.ReplaceAllString(path, "none")
		content := &counted{Reader: strings.NewReader(strings.Repeat("a", 2<<10))}
		request := httptest.NewRequest(method, path, content)
		request.ContentLength = 2 << 10
		request.Header.Set("Content-Type", media)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
		if strings.HasPrefix(path, "/console") {
			request.Header.Set("Cookie", "waybill="+b.cookie())
		} else {
			request.Header.Set("Authorization", "Bearer "+adminKey)
		}
		w := httptest.NewRecorder()
		r.service.Handler().ServeHTTP(w, request)
		if content.read > 0 {
			t.Errorf("%s %s (%s) has read %d bytes, and answers %d", method, path, media, content.read, w.Code)
		}
		if w.Code == http.StatusServiceUnavailable {
			refused++
		}
	}
	for _, route := range api.Routes() {
		if !route.Stream {
			send(route.Method, route.Path, "application/json")
			send(route.Method, route.Path, "application/zip")
		}
	}
	pages := []string{"/console/sign-in", "/console/enter", "/console/theme", "/console/links"}
	for _, module := range api.ConsoleModules() {
		for _, route := range module.Routes {
			if route.Method == http.MethodPost {
				pages = append(pages, route.Path)
			}
		}
	}
	for _, path := range pages {
		send(http.MethodPost, path, "application/x-www-form-urlencoded")
	}
	if refused < 60 {
		t.Errorf("%d routes were refused for lack of memory: the walk has lost its way", refused)
	}
}

// The forms that are open to all take little, and an upload is read only for those who may upload.
func TestFormsThatAreOpenToAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser()
	for path, most := range map[string]int{"/console/theme": 1 << 10, "/console/sign-in": 4 << 10, "/console/enter": 4 << 10} {
		if p := b.do(http.MethodPost, path, url.Values{"theme": {strings.Repeat("x", most)}}); p.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s takes more than %d bytes: %d", path, most, p.status)
		}
	}
	_, reader := r.holder(r.bucket("readers"), "reader", "gateway:read")
	b.signIn(reader)
	p := b.upload("shop", "main", make([]byte, 1<<20))
	if p.status != http.StatusForbidden {
		t.Errorf("an upload by a key that reads: %d", p.status)
	}
}
