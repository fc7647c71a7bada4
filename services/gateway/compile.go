package gateway

import (
	"context"
	"fmt"

	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/store/deployments"
)

// compiler returns the function that makes the site of a build that has passed.
func compiler(rules tenant.Rules) func(context.Context, *deployments.Source, bool) (*site.Site, error) {
	rules.Built = true
	return func(ctx context.Context, source *deployments.Source, awaited bool) (*site.Site, error) {
		rules := rules
		if !awaited {
			rules.Rest = tenant.NewPace(ctx)
		}
		made, faults := rules.Make(ctx, source.Format, source.Archive, &source.Build, source.Variables)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("compile routes: %w", err)
		}
		if len(faults) > 0 {
			return nil, fmt.Errorf("compile routes: %w", faults)
		}
		return made, nil
	}
}
