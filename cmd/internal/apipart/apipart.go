// Package apipart adds the API to a process, with the routes of a folder.
package apipart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/gatewaypart"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/apikey"
)

// API is the API of a process. It answers on the process's HTTP address.
type API struct {
	http.Handler
	// Traffic counts all requests of the process, including those to deployments.
	Traffic *gateway.Traffic
	// Meters hold the consumers that call the process to their plans.
	Meters gateway.Meters

	service *api.Service
}

// ConsoleLink returns the path of a link that signs in to the console as the admin, once and
// within 60 s; empty: there is no admin key.
func (a *API) ConsoleLink(ctx context.Context) (string, error) { return a.service.ConsoleLink(ctx) }

// Add makes the API on the handles and adds it to p. The result answers on the process's
// HTTP address.
func Add(p *boot.Process, h *boot.Handles) (http.Handler, error) {
	a, err := AddAPI(p, h, nil)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Authenticate finds out to whom a key belongs.
func (a *API) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	return a.service.Authenticate(ctx, key)
}

// AddAPI is Add for a process that needs more than the handler. localURL returns the local address
// of a deployment on this machine; nil: there are none.
func AddAPI(p *boot.Process, h *boot.Handles, localURL func(deployment string) string) (*API, error) {
	if err := checkRoutesDir(&h.Settings); err != nil {
		return nil, err
	}
	if err := checkAdminKey(h); err != nil {
		return nil, err
	}
	traffic := gatewaypart.Traffic(p, h)
	meters := gatewaypart.Meters(h, traffic)
	service, routes, err := Compose(
		api.Options{
			Store: h.Store, Bus: h.Bus, Egress: h.Egress, Logger: h.Logger,
			AdminKey:      h.Settings.AdminKey,
			Keyring:       h.Keyring,
			RetrySchedule: h.Settings.RetrySchedule,
			Retention:     h.Settings.Retention,
			DisableAfter:  h.Settings.DisableAfter,
			RateLimit:     h.Settings.RateLimit,
			SourceBytes:   h.Settings.SourceBytes,
			Limits:        h.Settings.Limits,
			Memory:        h.Memory, TrustedProxies: h.Settings.TrustedProxies, PublicURL: h.Settings.PublicURL,
			OIDC:       api.OIDC{Issuer: h.Settings.OIDCIssuer, ClientID: h.Settings.OIDCClientID, ClientSecret: h.Settings.OIDCSecret},
			GatewayURL: h.GatewayURL(), LocalURL: localURL, Resolver: resolver(h), Registerer: h.Registry, TracerProvider: h.Tracer, Process: process(h),
		},
		gateway.RoutesOptions{
			Dir: h.Settings.RoutesDir, Fallback: !h.Settings.RoutesDirGiven, Variables: Environment(),
			Egress: h.Egress, Memory: h.Memory, Logger: h.Logger, Registerer: h.Registry,
			Traffic: traffic, Meters: meters,
		},
	)
	if err != nil {
		return nil, err
	}
	p.Add("routes", routes.Run)
	p.Add("API", service.Run)
	h.AtShutdown(service.EndStreams)
	return &API{service.Handler(), traffic, meters, service}, nil
}

// resolver returns the DNS resolver for custom domains; nil: DNS is not asked.
func resolver(h *boot.Handles) api.Resolver {
	if h.Settings.DomainVerification == "none" {
		return nil
	}
	return net.DefaultResolver
}

// process returns the description of this process for the console.
func process(h *boot.Handles) api.Process {
	p := api.Process{Version: h.Version, Started: time.Now()}
	for _, given := range h.Settings.Given {
		p.Settings = append(p.Settings, api.Setting{Name: given.Name, Value: given.Value, Source: boot.Origin(given.Source)})
	}
	return p
}

// Environment returns the variables of the process that route files may name: all but
// Waybill's own, among which are keys.
func Environment() gateway.Variables {
	variables := make(gateway.Variables)
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(strings.ToUpper(name), "WAYBILL_") {
			variables[name] = value
		}
	}
	return variables
}

// lookTime is how long the search for keys may take.
const lookTime = 10 * time.Second

// checkAdminKey returns an error if the installation would have no key at all.
func checkAdminKey(h *boot.Handles) error {
	if h.Settings.AdminKey != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	has, err := api.HasKeys(ctx, h.Store)
	if err == nil && !has {
		err = fmt.Errorf("%s is required while the database has no API key: set it in the environment or by --admin-key", settings.AdminKey)
	}
	return err
}

// checkRoutesDir returns an error that says why the given directory can't be used.
func checkRoutesDir(s *settings.Settings) error {
	if !s.RoutesDirGiven {
		return nil
	}
	_, err := os.ReadDir(s.RoutesDir)
	if err == nil {
		return nil
	}
	reason := err
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		reason = at.Err
	}
	return fmt.Errorf("routes directory %s can't be read (%w): choose another directory with --routes or %s", s.RoutesDir, reason, settings.RoutesDir)
}
