package gateway

import (
	"context"
	"fmt"

	"waybill.dev/services/gateway/internal/archive"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store/deployments"
)

// compiler returns what makes the site of a build.
func compiler(policy *egress.Policy) func(context.Context, *deployments.Source) (*site.Site, error) {
	return func(ctx context.Context, source *deployments.Source) (*site.Site, error) {
		files, faults := archive.Read(ctx, source.Format, source.Archive)
		if len(faults) > 0 {
			return nil, fmt.Errorf("read archive: %w", faults)
		}
		variables := make(site.Variables, len(source.Variables))
		for name, value := range source.Variables {
			variables[name] = value.Reveal()
		}
		compiled, faults := site.Compile(files, variables, site.Limits{Account: source.Build.Account, Egress: policy})
		if len(faults) > 0 {
			return nil, fmt.Errorf("compile routes: %w", faults)
		}
		return compiled, nil
	}
}
