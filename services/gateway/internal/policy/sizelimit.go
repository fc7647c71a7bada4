package policy

import (
	"context"
	"fmt"
	"strconv"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/problem"
)

// sizeLimit refuses requests with larger bodies.
type sizeLimit int

type sizeLimitOptions struct{ MaxSizeInBytes float64 }

func sizeLimitPolicy() Policy {
	return Policy{
		Name: "request-size-limit-inbound", Export: "RequestSizeLimitInboundPolicy",
		About: "Refuses requests whose body is too long, with 413. [Larger limits](gateway.md#a-route) than the gateway's own have no effect.",
		Options: `{
			"type": "object", "additionalProperties": false, "required": ["maxSizeInBytes"],
			"properties": {"maxSizeInBytes": {"type": "integer", "minimum": 0, "maximum": ` + strconv.Itoa(route.MaxMCPRequest) + `, "description": "How long a body may be."}}
		}`,
		Example: `{"maxSizeInBytes": 65536}`,
		New: typed(func(o *sizeLimitOptions, _ *Env) (Parts, []Fault) {
			return Parts{In: sizeLimit(int(o.MaxSizeInBytes))}, nil
		}),
	}
}

// In compares the body's size.
func (s sizeLimit) In(_ context.Context, r *route.Request) (*route.Response, error) {
	if len(r.Body) > int(s) {
		return nil, problem.New(problem.TooLarge, fmt.Sprintf("The body must have at most %d bytes.", int(s)))
	}
	return nil, nil
}
