package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/tunnel"
)

const (
	// maxDocument bounds a services configuration, in bytes.
	maxDocument = 8 << 20
	dialTime    = 5 * time.Second
	idleTime    = 30 * time.Second
	// maxIdle is how many idle connections to a service are kept.
	maxIdle = 256
)

// services answer the requests of gateways: requests to the services of the configuration, and new
// configurations.
type services struct {
	allow []Origin
	// allowAny: every origin is allowed.
	allowAny bool
	log      *slog.Logger
	byName   atomic.Pointer[map[string]http.Handler] // nil until the first configuration
	leave    func(reason string)                     // called when the gateway sends no new requests

	transport *http.Transport
}

// newTransport returns the transport to services. It ignores proxies of the environment: requests go
// directly to the address in the configuration.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:        client.Dial,
		DisableCompression: true, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime,
		TLSHandshakeTimeout: dialTime, MaxResponseHeaderBytes: tunnel.MaxHeader,
	}
}

// ServeHTTP implements http.Handler.
func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host == tunnel.ControlHost {
		s.control(w, r)
		return
	}
	if known := s.byName.Load(); known != nil {
		if handler := (*known)[r.Host]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
	}
	w.Header().Set(tunnel.ErrorHeader, tunnel.CodeUnknown)
	w.WriteHeader(http.StatusBadGateway)
}

// control answers requests that are for the agent itself, and not for a service.
func (s *services) control(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(io.LimitReader(r.Body, maxDocument))
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPut && r.URL.Path == tunnel.ServicesPath:
		if err := s.configure(content); err != nil {
			s.log.Warn("the services configuration is refused", "reason", err)
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost && r.URL.Path == tunnel.LeavePath:
		w.WriteHeader(http.StatusNoContent)
		s.leave(string(content))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// configure applies a services configuration. If one service can't be accepted, nothing changes and the
// error says why.
func (s *services) configure(document []byte) error {
	var wanted domain.TunnelServices
	if err := json.Unmarshal(document, &wanted); err != nil {
		return errors.New("the agent can't read the services configuration; it may be too old")
	}
	byName := make(map[string]http.Handler, len(wanted.Services))
	var refused []string
	for _, service := range wanted.Services {
		endpoint, err := s.endpoint(service.Endpoint)
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %s", service.Name, err))
			continue
		}
		byName[service.Name] = s.proxy(endpoint)
	}
	if len(refused) > 0 {
		return errors.New(strings.Join(refused, "; ")) //nolint:err113 // it is a text for people
	}
	s.byName.Store(&byName)
	s.log.Info("the services configuration is taken", "version", wanted.Version, "services", len(byName))
	return nil
}

// endpoint reads the URL of a service, which must be of an origin that is allowed.
func (s *services) endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("its endpoint is no URL")
	}
	origin, err := originOf(u)
	if err != nil {
		return nil, errors.New("its endpoint is no http or https URL")
	}
	if !s.allowAny && !slices.Contains(s.allow, origin) {
		return nil, fmt.Errorf("%s is not allowed by --allow", origin)
	}
	return u, nil
}

// proxy returns a handler that forwards requests to a service. It passes redirects on and doesn't follow them.
func (s *services) proxy(endpoint *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(endpoint)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // the proxy would drop parts that it can't parse
			// The gateway sets these headers; the agent knows nothing more about the caller.
			for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
				if values := r.In.Header.Values(name); len(values) > 0 {
					r.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del(tunnel.ErrorHeader) // only the agent may set this header
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			code := tunnel.CodeFailed
			if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
				code = tunnel.CodeUnreachable
			}
			if !errors.Is(err, context.Canceled) {
				s.log.Warn("a service does not answer", "service", r.Host, "endpoint", endpoint.Redacted(), "error", err)
			}
			w.Header().Set(tunnel.ErrorHeader, code)
			w.WriteHeader(http.StatusBadGateway)
		},
		Transport: s.transport,
		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
