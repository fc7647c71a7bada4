package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Handler returns the handler of all requests: callbacks by POST on any path, the page on /, and the page's own
// paths below /-/.
func (r *Receiver) Handler() http.Handler {
	ours := http.NewServeMux()
	ours.HandleFunc("GET /{$}", r.page)
	ours.Handle("GET /-/assets/{name}", r.assets)
	ours.HandleFunc("GET /-/live", r.live)
	ours.HandleFunc("GET /-/callbacks", r.list)
	ours.HandleFunc("GET /-/callbacks/{number}/body", r.body)
	ours.HandleFunc("POST /-/paths", r.setPath)
	ours.HandleFunc("POST /-/clear", r.clear)
	ours.HandleFunc("GET /-/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"status":"alive"}`)
	})
	// Another site in the same browser must neither post forms here nor read the page under a name of its own.
	guarded := http.NewCrossOriginProtection().Handler(sameHost(secured(ours)))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && !strings.HasPrefix(req.URL.Path, "/-/") {
			r.receive(w, req)
			return
		}
		guarded.ServeHTTP(w, req)
	})
}

// secured sets the headers of everything that a browser shows.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, req)
	})
}

// sameHost refuses a request over loopback under a name that is not one of loopback's: a site may have made its own
// name resolve to loopback.
func sameHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		local, _ := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if addr, ok := local.(*net.TCPAddr); ok && addr.IP.IsLoopback() && !isLoopback(req.Host) {
			http.Error(w, "use a loopback address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func isLoopback(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large or incomplete", http.StatusRequestEntityTooLarge)
		return
	}
	c := Callback{ReceivedAt: r.now(), Path: req.URL.Path, Query: req.URL.RawQuery, Header: req.Header.Clone(), Body: body}
	answer, err := r.decide(c, req.URL.Query())
	if err != nil {
		answer.Status = http.StatusBadRequest
	}
	if err == nil && answer.Status < http.StatusMultipleChoices && !req.URL.Query().Has("status") && !r.trusts(req.Context(), c) {
		answer.Status = http.StatusUnauthorized
	}
	c.Status, c.Delay = answer.Status, answer.Delay
	r.keep(c)
	if err != nil {
		http.Error(w, err.Error(), c.Status)
		return
	}
	if answer.Delay > 0 {
		timer := time.NewTimer(answer.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return
		}
	}
	w.WriteHeader(answer.Status)
}

// trusts reports whether a callback is signed with a secret of its path, or no secret is known. A webhook may be so
// new that its secret has not arrived yet, so trusts waits a moment.
func (r *Receiver) trusts(ctx context.Context, c Callback) bool {
	if _, checked, ok := r.verify(c); ok || !checked {
		return true
	}
	timer := time.NewTimer(learning)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	_, _, ok := r.verify(c)
	return ok
}

// clear forgets the callbacks.
func (r *Receiver) clear(w http.ResponseWriter, req *http.Request) {
	r.Clear()
	http.Redirect(w, req, "/", http.StatusSeeOther)
}

// instruction sets the behaviour of a path. It comes from the page's form or as JSON.
type instruction struct {
	Path         string   `json:"path"`
	Secret       *string  `json:"secret"` // another secret; empty: removes all
	Status       *int     `json:"status"`
	DelaySeconds *float64 `json:"delaySeconds"`
	Times        *int     `json:"times"`
}

// setPath handles an instruction. It answers JSON with 204, and redirects a form back to the page.
func (r *Receiver) setPath(w http.ResponseWriter, req *http.Request) {
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	req.Body = http.MaxBytesReader(w, req.Body, 64<<10)
	var in instruction
	var err error
	if kind == "application/json" {
		decoder := json.NewDecoder(req.Body)
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&in)
	} else {
		in, err = fromForm(req)
	}
	if err == nil {
		err = r.obey(in)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case kind == "application/json":
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Redirect(w, req, "/", http.StatusSeeOther)
	}
}

func fromForm(req *http.Request) (in instruction, err error) {
	if err := req.ParseForm(); err != nil {
		return in, errors.New("the form can't be read")
	}
	in.Path = strings.TrimSpace(req.PostForm.Get("path"))
	if secret := strings.TrimSpace(req.PostForm.Get("secret")); secret != "" {
		in.Secret = &secret
	}
	status, delay, times := 0, 0.0, 0
	if text := req.PostForm.Get("status"); text != "" {
		if status, err = strconv.Atoi(text); err != nil {
			return in, errors.New("status must be a number")
		}
		in.Status = &status
	}
	if text := req.PostForm.Get("delay"); text != "" {
		if delay, err = strconv.ParseFloat(text, 64); err != nil {
			return in, errors.New("delay must be a number of seconds")
		}
		in.DelaySeconds = &delay
	}
	if text := req.PostForm.Get("times"); text != "" {
		if times, err = strconv.Atoi(text); err != nil {
			return in, errors.New("times must be a number")
		}
		in.Times = &times
	}
	return in, nil
}

func (r *Receiver) obey(in instruction) error {
	if !strings.HasPrefix(in.Path, "/") || strings.HasPrefix(in.Path, "/-/") || len(in.Path) > 256 {
		return errors.New("path must begin with / and not with /-/")
	}
	if in.Secret != nil {
		if err := r.Trust(in.Path, *in.Secret); err != nil {
			return err
		}
	}
	if in.Status == nil && in.DelaySeconds == nil && in.Times == nil {
		return nil
	}
	answer := Answer{Status: http.StatusOK}
	if in.Status != nil {
		answer.Status = *in.Status
	}
	if in.DelaySeconds != nil {
		if !(*in.DelaySeconds >= 0 && *in.DelaySeconds <= maxDelay.Seconds()) {
			return fmt.Errorf("delay must be from 0 to %s", maxDelay)
		}
		answer.Delay = time.Duration(*in.DelaySeconds * float64(time.Second))
	}
	if in.Times != nil {
		answer.Times = *in.Times
	}
	return r.Behave(in.Path, answer)
}
