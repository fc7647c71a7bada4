package policy

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
)

// maxChanges is how many headers or parameters one policy changes.
const maxChanges = 100

// change sets something to a value; what is there already may be left as it is.
type change struct {
	name, value string
	overwrite   bool
}

// readChanges reads an option that lists changes.
func readChanges(options *input.Form, option string, check func(name, value string) error) []change {
	options.Require(option)
	list, _ := options.Elements(option, 1, maxChanges, false)
	var changes []change
	for i, element := range list {
		if element.Form == nil {
			continue
		}
		element.Form.Require("name", "value")
		name, named := element.Form.Text("name", 1, 256)
		value, valued := element.Form.Text("value", 0, 8192)
		overwrite, given := element.Form.Bool("overwrite")
		if named && valued {
			if err := check(name, value); err != nil {
				options.Fault(err.Error(), option, strconv.Itoa(i))
			}
		}
		changes = append(changes, change{name: name, value: value, overwrite: overwrite || !given})
	}
	return changes
}

// readNames reads an option that lists names.
func readNames(options *input.Form, option string, check func(name string) error) []string {
	options.Require(option)
	names, _ := options.Texts(option, 1, maxChanges)
	for i, name := range names {
		if name == "" {
			options.Fault("must not be empty", option, strconv.Itoa(i))
			continue
		}
		if err := check(name); err != nil {
			options.Fault(err.Error(), option, strconv.Itoa(i))
		}
	}
	return names
}

type setHeaders []change

func setHeadersInbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	return built{in: setHeaders(readChanges(options, "headers", checkRequestHeader))}
}

var errCallerHeader = errors.New("is the gateway's own: it says who calls")

func checkRequestHeader(name, value string) error {
	if route.SaysCaller(name) {
		return errCallerHeader
	}
	return route.CheckHeader(name, value)
}

func setHeadersOutbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	return built{out: setHeaders(readChanges(options, "headers", route.CheckHeader))}
}

// In sets headers of the request. A back end gets them also where the caller's own of the
// same name would not be passed on.
func (s setHeaders) In(_ context.Context, r *route.Request) (*route.Response, error) {
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if r.Outgoing == nil {
		r.Outgoing = make(http.Header)
	}
	for _, c := range s {
		if c.overwrite || len(r.Header.Values(c.name)) == 0 {
			r.Header.Set(c.name, c.value)
			r.Outgoing.Set(c.name, c.value)
		}
	}
	return nil, nil
}

// Out sets headers of the answer.
func (s setHeaders) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	for _, c := range s {
		if c.overwrite || len(response.Header.Values(c.name)) == 0 {
			response.Header.Set(c.name, c.value)
		}
	}
	return response, nil
}

type removeHeaders []string

func removeHeadersInbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	return built{in: removeHeaders(readNames(options, "headers", checkHeaderName))}
}

func removeHeadersOutbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	return built{out: removeHeaders(readNames(options, "headers", checkHeaderName))}
}

func checkHeaderName(name string) error { return route.CheckHeader(name, "") }

// In removes headers of the request.
func (names removeHeaders) In(_ context.Context, r *route.Request) (*route.Response, error) {
	for _, name := range names {
		r.Header.Del(name)
		r.Outgoing.Del(name)
	}
	return nil, nil
}

// Out removes headers of the answer.
func (names removeHeaders) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	for _, name := range names {
		response.Header.Del(name)
	}
	return response, nil
}
