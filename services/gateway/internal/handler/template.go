package handler

import (
	"errors"
	"regexp"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// The roots of expressions in templates.
const (
	rootEnv      = "env"
	rootParams   = "params"
	rootQuery    = "query"
	rootHeaders  = "headers"
	rootPathname = "pathname"
	rootSearch   = "search"
	rootMethod   = "method"
)

// token is a piece of a template: plain text, or `${root.name}`; `e(…)` around the name asks for an
// encoding that would otherwise be left out.
type token struct {
	text       string
	expression bool
	root, name string
	encode     bool
}

var (
	errOpen       = errors.New("has ${ without }")
	errExpression = errors.New("has an unknown expression; possible are env.NAME, params.NAME, query.NAME, headers.NAME, pathname, search, method, and e(…) around one of them")
)

// expressionForm matches the text between ${ and }.
var expressionForm = regexp.MustCompile(`^(?:(env|params|query|headers)\.([A-Za-z0-9_.-]+)|(pathname|search|method))$`)

// tokenize takes a template apart.
func tokenize(text string) ([]token, error) {
	var tokens []token
	for {
		before, rest, found := strings.Cut(text, "${")
		if before != "" {
			tokens = append(tokens, token{text: before})
		}
		if !found {
			return tokens, nil
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, errOpen
		}
		t := token{expression: true}
		expression = strings.TrimSpace(expression)
		if inner, ok := strings.CutPrefix(expression, "e("); ok && strings.HasSuffix(inner, ")") {
			t.encode, expression = true, strings.TrimSpace(inner[:len(inner)-1])
		}
		parts := expressionForm.FindStringSubmatch(expression)
		if parts == nil {
			return nil, errExpression
		}
		t.root, t.name = parts[1]+parts[3], parts[2]
		tokens = append(tokens, t)
		text = after
	}
}

// constant returns the value of a token that takes nothing from the request.
func (t *token) constant(getenv func(string) (string, bool)) (string, error) {
	if !t.expression {
		return t.text, nil
	}
	value, err := routefile.Variable(getenv, t.name)
	if err != nil {
		return "", err
	}
	if t.encode {
		return route.Component(value), nil
	}
	return value, nil
}
