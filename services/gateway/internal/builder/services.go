package builder

import (
	"context"
	"errors"
	"fmt"

	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/domain"
)

// Services has the services behind tunnels.
type Services interface {
	// ServicesOf returns the services of an account, by their names.
	ServicesOf(ctx context.Context, account string) (map[string]domain.TunnelService, error)
}

var (
	errNoService = errors.New("is a service that no tunnel of the account has")
	errNoAccess  = errors.New("is a service that this environment of the project may not use")
)

// services returns a function that says whether the build may use a service. If the account's services
// can't be read, this is a fault of the build. If the database is away, it is an error, and the build is tried again.
func (w *work) services(ctx context.Context) (func(name string) error, error) {
	if w.options.Services == nil {
		return nil, nil
	}
	b := &w.claim.Build
	services, err := w.options.Services.ServicesOf(ctx, b.Account)
	switch {
	case errors.Is(err, domain.ErrUnavailable), err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("look for services: %w", err)
	case err != nil:
		w.options.Logger.Error("the services of an account can't be read", "build", b.ID, "deployment", b.Deployment, "error", err)
		w.record.faults(routefile.Faults{{Message: "the services of the account can't be read; who runs Waybill finds the reason in the gateway's log"}})
	}
	return func(name string) error {
		service, ok := services[name]
		switch {
		case !ok:
			return errNoService
		case !service.Allows(b.Project, b.EnvironmentType):
			return errNoAccess
		}
		return nil
	}, nil
}
