package handler

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

var (
	errHost     = errors.New("must begin with http://, https:// or service:// and a host that does not come from the request")
	errParam    = errors.New("names a parameter that the path does not have")
	errKey      = errors.New("must not have the caller's key or cookies in it")
	errPathText = errors.New("must be a URL of ASCII characters, without a fragment")
)

// origin matches the scheme and host at the beginning of a template.
var origin = regexp.MustCompile(`^(?:(?i:https?)|service)://[^/?#\\]+`)

// rewrite sends requests to a URL that is made for each request.
type rewrite struct {
	*backEnd

	base   *url.URL
	path   []token // each is text, or comes from the request
	query  []token
	search bool // the query of the request is forwarded
}

// newRewrite makes the handler that asks at rewritePattern.
func newRewrite(options *input.Form, op *routefile.Operation, env *Env) route.Handler {
	options.Require("rewritePattern")
	text, _ := options.Text("rewritePattern", 1, 2048)
	w := &rewrite{search: true}
	if search, given := options.Bool("forwardSearch"); given {
		w.search = search
	}
	if text != "" {
		if err := w.compile(text, op, env); err != nil {
			options.Fault(err.Error(), "rewritePattern")
		}
	}
	w.backEnd = newBackEnd(options, op, w.base, env)
	return w
}

// compile takes the pattern apart: the environment's values are put in, the rest is sorted
// into path and query.
func (w *rewrite) compile(text string, op *routefile.Operation, env *Env) error {
	tokens, err := tokenize(text)
	if err != nil {
		return err
	}
	if tokens, err = settle(tokens, op, env); err != nil {
		return err
	}
	begin := origin.FindString(tokens[0].text)
	if begin == "" {
		return errHost
	}
	if w.base, err = env.baseOf(begin); err != nil {
		return err
	}
	tokens[0].text = tokens[0].text[len(begin):]
	if tokens[0].text == "" && len(tokens) > 1 {
		// A text from the request would go on with the host's name.
		if next := tokens[1]; next.encode || next.root != rootPathname && next.root != rootSearch {
			return errHost
		}
	}
	return w.sort(tokens)
}

// settle inserts the environment's values, and joins adjacent texts.
func settle(tokens []token, op *routefile.Operation, env *Env) ([]token, error) {
	settled := []token{{}}
	for _, t := range tokens {
		last := &settled[len(settled)-1]
		if !t.expression || t.root == rootEnv {
			text, err := t.constant(env.Getenv)
			if err != nil {
				return nil, err
			}
			if last.expression {
				settled = append(settled, token{text: text})
			} else {
				last.text += text
			}
			continue
		}
		if t.root == rootParams && !hasParameter(op, t.name) {
			return nil, errParam
		}
		if t.root == rootHeaders && isCredential(plainName(t.name)) {
			return nil, errKey
		}
		settled = append(settled, t)
	}
	return settled, nil
}

func hasParameter(op *routefile.Operation, name string) bool {
	return slices.ContainsFunc(op.Parameters, func(p routefile.Parameter) bool { return p.In == "path" && p.Name == name })
}

// sort puts tokens into path and query; everything after `${search}` belongs to the query.
func (w *rewrite) sort(tokens []token) error {
	inQuery := false
	for _, t := range tokens {
		if t.expression {
			if t.root == rootSearch && !t.encode {
				w.search, inQuery = false, true
			}
			if inQuery {
				w.query = append(w.query, t)
			} else {
				w.path = append(w.path, t)
			}
			continue
		}
		path, query, found := "", t.text, true
		if !inQuery {
			path, query, found = strings.Cut(t.text, "?")
		}
		if !isPathText(path) || !isQueryText(query) {
			return errPathText
		}
		if path != "" {
			w.path = append(w.path, token{text: path})
		}
		if inQuery = inQuery || found; query != "" {
			w.query = append(w.query, token{text: query})
		}
	}
	if len(w.query) == 1 && w.query[0].root == rootSearch && !w.query[0].encode {
		w.search, w.query = true, nil // the request's query as it is, even if it is only a ?
	}
	return nil
}

// isPathText reports whether text can stand in a path as it is.
func isPathText(text string) bool {
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return false
	}
	u := url.URL{Path: decoded, RawPath: text}
	return u.EscapedPath() == text
}

func isQueryText(text string) bool {
	_, err := url.QueryUnescape(text)
	return err == nil && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("#\"<>\\^`{|}", r)
	})
}

// Handle implements route.Handler.
func (w *rewrite) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	var path, query strings.Builder
	for _, t := range w.path {
		text, err := t.inPath(r)
		if err != nil {
			return nil, err
		}
		path.WriteString(text)
	}
	for _, t := range w.query {
		query.WriteString(t.inQuery(r))
	}
	search, err := w.join(query.String(), &r.Query)
	if err != nil {
		return nil, err
	}
	to, err := target(w.base, path.String(), search)
	if err != nil {
		return nil, err
	}
	return w.ask(ctx, r, to)
}

// join returns the query of the pattern, followed by the request's query without the parameters
// that the pattern sets. It begins with its ?.
func (w *rewrite) join(own string, of *route.Query) (string, error) {
	switch {
	case own == "" && w.search:
		return of.Search(), nil
	case own == "":
		return "", nil
	case !w.search:
		return "?" + own, nil
	}
	set := route.ParseQuery(&url.URL{RawQuery: own})
	rest, err := of.Without(set.Has)
	if err != nil || rest == "" {
		return "?" + own, err
	}
	return "?" + own + "&" + rest, nil
}

// inPath returns the encoded value of a token of the path. A missing value is refused: without it,
// the request would go to another path.
func (t *token) inPath(r *route.Request) (string, error) {
	switch {
	case !t.expression:
		return t.text, nil
	case t.root == rootPathname && !t.encode:
		return r.Path, nil
	}
	value := t.value(r)
	if value == "" {
		fault := problem.Fault{Parameter: t.name, Detail: "is required"}
		if t.root == rootHeaders {
			fault = problem.Fault{Header: http.CanonicalHeaderKey(t.name), Detail: "is required"}
		}
		return "", problem.Invalid(fault)
	}
	return route.Component(value), nil
}

func (t *token) inQuery(r *route.Request) string {
	switch {
	case !t.expression:
		return t.text
	case t.root == rootSearch && !t.encode:
		return r.Query.Raw()
	}
	return route.Component(t.value(r))
}

// value returns the value of an expression as text.
func (t *token) value(r *route.Request) string {
	switch t.root {
	case rootParams:
		return r.Params[t.name]
	case rootQuery:
		return r.Query.Get(t.name)
	case rootHeaders:
		return r.Header.Get(t.name)
	case rootPathname:
		return r.Path
	case rootMethod:
		return r.Method
	}
	return r.Query.Search()
}
