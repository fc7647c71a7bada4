package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/acme"
	"waybill.dev/services/gateway/internal/builder"
	"waybill.dev/services/gateway/internal/clientcert"
	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/services/gateway/internal/tunnel"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/body"
	"waybill.dev/shared/bus"
	callers "waybill.dev/shared/edge"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/keyholders"
	"waybill.dev/shared/store/tunnels"
)

// DefaultDomain is the domain below which deployments have their names.
const DefaultDomain = "gateway.localhost"

// Options of a gateway. Options with a default may be left out, and so may Memory.
type Options struct {
	Store *store.Store
	Bus   *bus.Bus
	// Keyring is the keyring that the store seals with. The gateway finds API keys by values derived from it.
	Keyring *seal.Keyring
	// Authenticator finds out to whom a key belongs; nil: the gateway does so itself.
	Authenticator Authenticator
	// Domain is that below which deployments have their names; empty: DefaultDomain.
	Domain string
	// Egress says where back ends of deployments may be.
	Egress *egress.Policy
	// Policies are the policies that route files of deployments may define; nil: the gateway's own.
	Policies *Policies
	// Own returns the addresses, as host:port, that no back end may have, whatever Egress says: the addresses
	// that Waybill listens on, its bus and its database. An entry without a host, or with an address of this
	// machine, stands for each of this machine's addresses.
	Own func() []string
	// TableMemory is how much memory the routes of all deployments may take, in bytes; the routes of one account
	// may take a tenth of it; 0: 512 MiB.
	TableMemory int64
	// Tables is how many deployments have their routes in memory; 0: 1000.
	Tables int
	// InFlight is how many requests of one deployment are served at a time; 0: 512.
	InFlight int
	// Traffic keeps counts and logs of the requests to deployments; nil: there are none.
	Traffic *Traffic
	// Meters hold consumers to their plans; nil: plans have no effect.
	Meters Meters
	// TrustedProxies are the networks of proxies whose X-Forwarded-For and -Proto count.
	TrustedProxies []netip.Prefix
	// Certificate returns the operator's certificate for Waybill's own hosts and those of
	// deployments; nil: there is none.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ACME says which authority gives certificates for custom domains.
	ACME ACME
	// Memory bounds the memory that all bodies take together; nil: there is no bound.
	Memory *body.Memory
	// Process is the name of this gateway. Lists of tunnel connections show it. Empty means "gateway".
	Process    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// ACME is a certificate authority that speaks ACME.
type ACME struct {
	Directory string // the URL of its directory; empty: there is no authority
	Email     string // empty: none
	// Trusted are the certificates by which the directory's address is trusted; nil: those of the system.
	Trusted *x509.CertPool
	// Challenges and RenewEvery may be left out.
	Challenges []string
	RenewEvery time.Duration
}

// Service serves deployments.
type Service struct {
	options Options
	rollout *rollout.Rollout
	domains *domains.Domains
	acme    *acme.Authority // nil: none
	clients *clientcert.Authorities
	tunnels *tunnel.Tunnels
	run     []func(context.Context) error
}

// New returns the service. The service knows no deployment before Run.
func New(o Options) (*Service, error) {
	o.Domain = cmp.Or(o.Domain, DefaultDomain)
	if o.Policies == nil {
		own, err := NewPolicies()
		if err != nil {
			return nil, fmt.Errorf("make gateway: %w", err)
		}
		o.Policies = own
	}
	s := &Service{options: o, domains: domains.New(o.Store), clients: clientcert.New(clientcas.New(o.Store), o.Bus, o.Logger)}
	if o.Authenticator == nil {
		keys, err := authenticator.New(authenticator.Options{
			Store: keyholders.New(o.Store), Bus: o.Bus, Peppers: o.Keyring.Derive(authenticator.Purpose), Logger: o.Logger,
		})
		if err != nil {
			return nil, fmt.Errorf("make gateway: %w", err)
		}
		o.Authenticator = keys
		s.run = append(s.run, keys.Run)
	}
	behind, err := newTunnels(o)
	if err != nil {
		return nil, err
	}
	s.tunnels = behind
	if s.acme, err = newAuthority(&o, s); err != nil {
		return nil, err
	}
	o.TableMemory = cmp.Or(o.TableMemory, rollout.DefaultMemory)
	tables, rules := deployments.New(o.Store), tenant.Rules{Egress: o.Egress, Policies: o.Policies, Memory: rollout.ShareOf(o.TableMemory)}
	s.rollout = rollout.New(rollout.Options{
		Store: tables, Domains: s.domains, DomainsChanged: s.domainsChanged, Bus: o.Bus, Compile: compiler(rules), Guard: upstream.NewGuard(o.Egress, o.Own, egress.Options{}),
		Services: s.tunnels, ClientCertificates: s.clients,
		Authenticator: o.Authenticator, Memory: o.Memory, Edge: &callers.Edge{Trusted: o.TrustedProxies},
		TableMemory: o.TableMemory, Tables: o.Tables, InFlight: int64(o.InFlight), Traffic: o.Traffic, Meters: o.Meters, Logger: o.Logger, Registerer: o.Registerer,
	})
	builds := builder.New(builder.Options{Store: tables, Services: tunnels.New(o.Store), Bus: o.Bus, Rules: rules, Logger: o.Logger, Registerer: o.Registerer})
	if s.acme != nil {
		s.run = append(s.run, s.acme.Run)
	}
	s.run = append(s.run, s.rollout.Run, builds.Run, s.tunnels.Run, s.clients.Run)
	return s, nil
}

// Run learns which deployments there are, follows their changes, and makes builds, until ctx ends. The caller
// stops serving first.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(s.run))
	for _, run := range s.run {
		go func() { errs <- run(ctx) }()
	}
	var all error
	for range s.run {
		all = errors.Join(all, <-errs)
		cancel()
	}
	return all
}

// Handler returns the handler of all requests. It looks at the Host of a request first. Requests for no
// deployment go to other; if other is nil, the health of the process is answered, and everything else with 404.
func (s *Service) Handler(other http.Handler) http.Handler {
	if other == nil {
		other = &ownAnswers{s}
	}
	return s.answering(hosts.New(s.options.Domain, s.rollout, agents(s.tunnels, other)))
}

// ConnContext is for the servers in front of Handler. With it, the verdict on a client certificate is remembered
// as long as its connection lasts.
func (s *Service) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return clientcert.ConnContext(ctx, c)
}

// ownAnswers answers for the process itself.
type ownAnswers struct{ service *Service }

// pingTime bounds the question whether the store answers: a caller of the health check asks about the process
// and needs a quick answer.
const pingTime = 500 * time.Millisecond

type healthView struct {
	Status string `json:"status"`
	Store  string `json:"store"`
	Bus    string `json:"bus"`
}

// ServeHTTP answers /healthz and /readyz. A gateway is ready once it knows which deployments there are. It stays
// ready while the store or the bus is away, because the routes that it has loaded need neither.
func (o *ownAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestid.Of(r.Header)
	header := w.Header()
	header.Set(requestid.Header, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	var status string
	code := http.StatusOK
	switch r.URL.Path {
	case "/healthz":
		status = "alive"
	case "/readyz":
		status = "ready"
		if !o.service.rollout.Ready() || !o.service.clients.Ready() {
			status, code = "starting", http.StatusServiceUnavailable
		}
	default:
		problem.New(problem.NotFound, "There is nothing at this path.").Write(w, r, id)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.").Write(w, r, id)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTime)
	defer cancel()
	answer, err := json.Marshal(healthView{status, stateText(o.service.options.Store.Ping(ctx)), stateText(o.service.options.Bus.Ready())})
	if err != nil {
		problem.New(problem.Internal, "Something went wrong on our side.").Write(w, r, id)
		return
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer)
	}
}

func stateText(err error) string {
	if err != nil {
		return "down"
	}
	return "up"
}
