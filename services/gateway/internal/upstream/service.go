package upstream

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// ServiceScheme is the scheme of URLs that name a service behind a tunnel: service://name/path.
const ServiceScheme = "service"

// Access says for which account and environment the routes of a site use services behind tunnels.
type Access struct {
	Account     string
	Project     string
	Environment domain.EnvironmentType
	// Check returns an error if the service can't be used. If Check is nil, every valid name is accepted.
	Check func(name string) error
}

// Service is a service behind a tunnel, and the account and environment that use it.
type Service struct {
	Account     string
	Project     string
	Environment domain.EnvironmentType
	Name        string
}

// Services sends requests through tunnels.
type Services interface {
	// RoundTrip sends a request to a service. It fails with a *ServiceError or an *egress.Error.
	RoundTrip(to Service, r *http.Request) (*http.Response, error)
}

// Codes of a ServiceError.
const (
	ServiceUnknown     = "service_unknown"     // the account has no such service
	ServiceDenied      = "service_denied"      // the service is not for this environment
	ServiceDown        = "service_down"        // no agent is connected
	ServiceUnreachable = "service_unreachable" // the agent can't connect to the service
	ServiceFailed      = "service_failed"      // the service did not answer, or the connection broke
	ServiceBusy        = "service_busy"        // too many requests run through the tunnel
)

// ServiceError says why a service has not answered.
type ServiceError struct{ Code string }

// Error implements error.
func (e *ServiceError) Error() string { return "ask a service behind a tunnel: " + e.Code }

var (
	errServiceUploaded = errors.New("can be a service behind a tunnel in uploaded deployments alone")
	errServiceForm     = errors.New("must be service:// and the name of a service: 3 to 24 letters, digits and hyphens")
)

// IsService reports whether a URL names a service behind a tunnel.
func IsService(text string) bool { return strings.HasPrefix(text, ServiceScheme+"://") }

// ParseService parses and checks the URL of a service.
func (a *Access) ParseService(text string) (*url.URL, error) {
	if a == nil {
		return nil, errServiceUploaded
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || !domain.ValidTunnelName(u.Host) {
		return nil, errServiceForm
	}
	if a.Check != nil {
		if err := a.Check(u.Host); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// ToService returns the back end for a URL from ParseService.
func (a *Access) ToService(base *url.URL) BackEnd {
	return BackEnd{base, ServiceScheme + "://" + base.Host, &Service{a.Account, a.Project, a.Environment, base.Host}}
}

const errOtherService egress.URLError = "must be an http or https URL"

// service sends a request to the service. A redirect to another address does not use the tunnel: it follows
// the rules for all back ends.
func (p *Pools) service(to BackEnd, r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Host != to.service.Name:
		closeBody(r)
		return nil, egress.AsError(r.Context(), errOtherService)
	case p.services == nil:
		closeBody(r)
		return nil, &ServiceError{ServiceDown}
	}
	return p.services.RoundTrip(*to.service, r)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
