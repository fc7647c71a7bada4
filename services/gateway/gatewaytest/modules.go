package gatewaytest

import (
	"context"
	"fmt"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
)

// step is the wait of the tool with progress after each report, so that a client sees the reports
// come one after the other.
const step = 50 * time.Millisecond

type object = map[string]any

// modules are the handlers that the fixtures of the conformance suite can't express in a route
// file: answers that depend on the arguments, and progress.
func modules() map[string]map[string]route.Handler {
	return map[string]map[string]route.Handler{"conformance": {
		"templateData":        site.Function(templateData),
		"promptWithArguments": site.Function(promptWithArguments),
		"promptWithResource":  site.Function(promptWithResource),
		"progress":            site.Function(progress),
	}}
}

func templateData(_ context.Context, r *route.Request) (any, error) {
	id := r.Params["id"]
	return object{"id": id, "templateTest": true, "data": "Data for ID: " + id}, nil
}

func promptWithArguments(_ context.Context, r *route.Request) (any, error) {
	return fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", r.Query.Get("arg1"), r.Query.Get("arg2")), nil
}

func promptWithResource(_ context.Context, r *route.Request) (any, error) {
	resource := object{"uri": r.Query.Get("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing."}
	return object{"messages": []object{
		{"role": "user", "content": object{"type": "resource", "resource": resource}},
		{"role": "user", "content": object{"type": "text", "text": "Please process the embedded resource above."}},
	}}, nil
}

func progress(ctx context.Context, r *route.Request) (any, error) {
	for _, done := range []float64{0, 50, 100} {
		if r.Progress != nil {
			r.Progress(done, 100, "")
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return "Done.", nil
}
