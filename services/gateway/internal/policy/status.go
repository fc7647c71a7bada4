package policy

import (
	"context"
	"fmt"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// setStatus gives answers another status.
type setStatus int

func setStatusOutbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	options.Require("status")
	status, _ := options.Integer("status", 200, 599)
	return built{out: setStatus(status)}
}

// Out sets the status.
func (s setStatus) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	response.Status = int(s)
	return response, nil
}

// sizeLimit refuses requests with larger bodies.
type sizeLimit int

func newSizeLimit(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	options.Require("maxSizeInBytes")
	size, _ := options.Integer("maxSizeInBytes", 0, route.MaxMCPRequest)
	return built{in: sizeLimit(size)}
}

// In compares the body's size.
func (s sizeLimit) In(_ context.Context, r *route.Request) (*route.Response, error) {
	if len(r.Body) > int(s) {
		return nil, problem.New(problem.TooLarge, fmt.Sprintf("The body must have at most %d bytes.", int(s)))
	}
	return nil, nil
}
