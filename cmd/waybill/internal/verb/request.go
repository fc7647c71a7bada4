package verb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
)

// MisuseError is an error in a user's input.
type MisuseError struct{ error }

func (e MisuseError) Unwrap() error { return e.error }

func misusef(format string, args ...any) error { return MisuseError{fmt.Errorf(format, args...)} }

// Request is a request to the API.
type Request struct {
	Method string
	// Path may still name the account: see In.
	Path  string
	Query url.Values
	Body  []byte // nil: no body
}

// NeedsAccount reports whether the path is an account's.
func (r *Request) NeedsAccount() bool { return strings.Contains(r.Path, "{account}") }

// In inserts the account into the path.
func (r *Request) In(account string) {
	r.Path = fill(r.Path, map[string]string{"account": url.PathEscape(account)})
}

// Target returns path and query.
func (r *Request) Target() string {
	if len(r.Query) == 0 {
		return r.Path
	}
	between := "?"
	if strings.Contains(r.Path, "?") {
		between = "&"
	}
	return r.Path + between + r.Query.Encode()
}

// Input is the input of the user.
type Input struct {
	Args   []string // as many as the verb has; Completion may have fewer
	Values []*Value
	// Read returns a file's content; -: standard input.
	Read func(name string) ([]byte, error)
}

// Text returns the value of a flag as text; empty: not given.
func (in *Input) Text(flag string) string {
	text, _ := in.Given(flag)
	return text
}

// Given is like Text, but distinguishes an empty value; ok is false when the flag was not given.
func (in *Input) Given(flag string) (text string, ok bool) {
	for _, v := range in.Values {
		if v.flag.Name == flag && v.set {
			return fmt.Sprint(v.parsed), true
		}
	}
	return "", false
}

// check reports missing input, and names that would change the path itself.
func (in *Input) check(v Verb) error {
	for i, arg := range v.Args[:len(in.Args)] {
		if text := in.Args[i]; text == "" || text == "." || text == ".." {
			return misusef("%s must not be %q", arg.Word, text)
		}
	}
	given := 0
	for _, value := range in.Values {
		if value.flag.Required && !value.set {
			return misusef("--%s is required", value.flag.Name)
		}
		if value.set && value.flag.In != InQuery {
			given++
		}
	}
	if v.Method == http.MethodPatch && given == 0 {
		return misusef("there is nothing to change: give at least one flag")
	}
	return nil
}

// Request makes the request that the input asks for.
func (v Verb) Request(in *Input) (*Request, error) {
	if err := in.check(v); err != nil {
		return nil, err
	}
	r := &Request{Method: v.Method, Path: in.target(v), Query: url.Values{}}
	members := make(map[string]any)
	for i, arg := range v.Args[:len(in.Args)] {
		if !strings.Contains(v.Path, "{"+arg.To+"}") {
			members[arg.To] = arg.text(in.Args[i])
		}
	}
	for _, value := range in.Values {
		if value.set {
			value.put(r.Query, members)
		}
	}
	if v.Body == AnObject || v.Body == Optional && len(members) > 0 {
		body, err := json.Marshal(members)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		r.Body = body
	}
	if v.Adjust != nil {
		return r, v.Adjust(r, in)
	}
	return r, nil
}

// target returns the verb's path with the arguments inserted.
func (in *Input) target(v Verb) string {
	path, query, asks := strings.Cut(v.Path, "?")
	path = fill(path, in.names(v.Args, url.PathEscape))
	if asks {
		path += "?" + fill(query, in.names(v.Args, url.QueryEscape))
	}
	return path
}

// text returns the value to send for typed text.
func (a Arg) text(typed string) string {
	if a.URL {
		return client.WithScheme(typed)
	}
	return typed
}

// put adds the value to the place of its flag.
func (v *Value) put(query url.Values, members map[string]any) {
	switch v.flag.In {
	case InBody:
		members[v.flag.target()] = v.parsed
	case InQuery:
		for name, value := range v.query() {
			query.Set(name, value)
		}
	case InVerb:
	}
}

// names returns the arguments by their names.
func (in *Input) names(args []Arg, escape func(string) string) map[string]string {
	names := make(map[string]string)
	for i, text := range in.Args {
		names[args[i].To] = escape(text)
	}
	return names
}

// Sentence inserts the user's input into a sentence.
func (v Verb) Sentence(text string, in *Input) string {
	return fill(text, in.names(v.Args, terminal.Clean))
}

// Completion returns the request for the list with the values of the next argument, and the member
// that has them; ok is false when there is no such list. See Each for each.
func (v Verb) Completion(in *Input, each string) (r *Request, member string, ok bool) {
	next := len(in.Args)
	if next >= len(v.Args) || v.Args[next].List == "" {
		return nil, "", false
	}
	arg, names := v.Args[next], in.names(v.Args, url.PathEscape)
	if arg.Each != "" {
		names[arg.EachTo] = url.PathEscape(each)
	}
	return &Request{Method: http.MethodGet, Path: fill(arg.List, names)}, arg.ID, true
}

// Each returns the request for a list of names. Completion is called for each of these names; nil:
// it is called once, with "".
func (v Verb) Each(in *Input) *Request {
	next := len(in.Args)
	if next >= len(v.Args) || v.Args[next].Each == "" {
		return nil
	}
	return &Request{Method: http.MethodGet, Path: fill(v.Args[next].Each, in.names(v.Args, url.PathEscape))}
}

// fill replaces {names} by their values, in one pass: braces in a value stay.
func fill(text string, names map[string]string) string {
	var pairs []string
	for name, value := range names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
