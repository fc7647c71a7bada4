package gateway

import (
	"context"

	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// CheckDeployment checks an uploaded zip archive as a build of it would be checked. It returns the
// routes, or everything that is wrong with the archive. Build names the deployment; only its
// Account, Project, Branch, EnvironmentType, Deployment and ID are used. Policy says where back
// ends may be. Nothing is started.
func CheckDeployment(ctx context.Context, packed []byte, build domain.Build, variables Variables, policy *egress.Policy) ([]RouteInfo, []RouteFault) {
	values := make(map[string]domain.Secret, len(variables))
	for name, value := range variables {
		values[name] = domain.Secret(value)
	}
	compiled, faults := tenant.Rules{Egress: policy}.Make(ctx, folder.Zip, packed, &build, values)
	if len(faults) > 0 {
		return nil, faults
	}
	return compiled.Routes(), nil
}
