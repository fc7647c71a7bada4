// Package traffic reports the requests to a deployment: their numbers, by consumer and status, and
// the log of the requests that were kept.
package traffic

import (
	"context"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	store "waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/traffic"
)

// Deployments knows to which account a deployment belongs.
type Deployments interface {
	GetDeployment(ctx context.Context, account, name string) (store.DeploymentWithBuilds, error)
}

// Traffic has the counts and logs that gateways have written.
type Traffic interface {
	CallCounts(ctx context.Context, deployment string, step traffic.Step, since time.Time, consumers []string, most int) ([]traffic.Count, error)
	RecentCalls(ctx context.Context, deployment string, since time.Time, consumers []string, limit int) ([]traffic.Request, error)
	ListRequests(ctx context.Context, f traffic.RequestFilter) ([]traffic.Request, string, error)
	NotKept(ctx context.Context, deployment string, since, until time.Time) (int64, error)
	GetRequest(ctx context.Context, deployment, requestID string) (traffic.Request, error)
}

// Routes returns the operations.
func Routes(of Deployments, requests Traffic) []web.Route {
	h := &handlers{of, requests}
	return []web.Route{
		{
			Method: http.MethodGet, Path: deployments.Path + "/recent-calls", Operation: "listRecentCalls",
			Scope: domain.ScopeGatewayRead, Handle: h.recent,
		},
		{
			Method: http.MethodGet, Path: deployments.Path + "/stats-by-status-code", Operation: "getCallStatistics",
			Scope: domain.ScopeGatewayRead, Handle: h.statistics,
		},
		{
			Method: http.MethodGet, Path: deployments.Path + "/request-logs", Operation: "listRequestLogs",
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: deployments.Path + "/request-logs/{requestId}", Operation: "getRequestLog",
			Scope: domain.ScopeGatewayRead, Handle: h.get,
		},
	}
}

type handlers struct {
	deployments Deployments
	traffic     Traffic
}

// deployment returns the deployment that the path names. The answer for a deployment of another
// account is the same as for one that does not exist.
func (h *handlers) deployment(c *web.Call) (string, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	name := c.Param("deploymentName")
	if name == domain.LocalDeployment && c.Principal.Account == domain.DefaultAccount {
		return name, nil
	}
	d, err := h.deployments.GetDeployment(c.Context(), c.Principal.Account, name)
	return d.Name, err
}
