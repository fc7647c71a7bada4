package api_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/kernel/selfapi"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
)

// functions is the smallest gateway: it has the API's own operations at /functions/EXPORT,
// for whom the request's key belongs to.
type functions struct{ rig *rig }

// Match implements api.Gateway.
func (f functions) Match(r *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string) {
	export, ok := strings.CutPrefix(r.URL.Path, "/functions/")
	function := api.Functions(f.rig.service.Handler())[export]
	if !ok || function == nil {
		return nil, ""
	}
	return func(w http.ResponseWriter, r *http.Request, requestID string) {
		given, err := f.call(r.Context(), function, r, requestID)
		if p, ok := errors.AsType[*problem.Problem](err); ok {
			p.Write(w, r, requestID)
			return
		} else if err != nil {
			f.rig.t.Error(err)
			return
		}
		maps.Copy(w.Header(), given.Header)
		w.WriteHeader(given.Status)
		_, _ = w.Write(given.Body)
	}, "/functions/{export}"
}

func (f functions) call(ctx context.Context, function api.Function, r *http.Request, requestID string) (*selfapi.Response, error) {
	key, _ := apikey.FromHeader(r.Header)
	principal, err := f.rig.service.Authenticate(ctx, key)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	seen := edge.Of(r)
	return function.Handle(ctx, &api.FunctionRequest{
		Query: r.URL.RawQuery, Header: r.Header, Body: body, Host: seen.Host, Scheme: seen.Scheme, Base: seen.Base,
		Remote: seen.Address, ID: requestID, Principal: &principal,
	})
}
