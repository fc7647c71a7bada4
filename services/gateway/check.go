package gateway

import (
	"context"
	"io/fs"

	"waybill.dev/services/gateway/internal/archive"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// CheckDeployment reads a folder as a build of its archive would, and tells what its routes are,
// or everything that is wrong with them. Build says of which deployment they are; its Account,
// Project, Branch, EnvironmentType, Deployment and ID are used. Policy says where back ends may
// be. Nothing is started.
func CheckDeployment(ctx context.Context, folder fs.FS, build domain.Build, variables Variables, policy *egress.Policy) ([]RouteInfo, []RouteFault) {
	files, faults := archive.ReadFolder(ctx, folder)
	if len(faults) > 0 {
		return nil, faults
	}
	values := make(map[string]domain.Secret, len(variables))
	for name, value := range variables {
		values[name] = domain.Secret(value)
	}
	compiled, faults := tenant.Rules{Egress: policy}.Compile(files, &build, values)
	if len(faults) > 0 {
		return nil, faults
	}
	return compiled.Routes(), nil
}
