package mcpserver

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/jsonscan"
)

// boundHeader is a header in which clients repeat an argument since 2026-07-28, so that proxies
// need not read the body. A tool's schema names the header with x-mcp-header.
type boundHeader struct {
	path []string // names of the members that lead to the argument
	name string
}

// maxHeaders bounds the headers of one tool: the arguments are searched for each of them.
const maxHeaders = 32

// headerToken matches a valid name of a header (RFC 9110, section 5.6.2).
var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// boundHeaders appends the headers that the properties of a schema at a path name to known.
func boundHeaders(known []boundHeader, schema jsontext.Value, path []string) ([]boundHeader, error) {
	var properties jsontext.Value
	fields{"properties": &properties}.read(schema)
	for raw, property := range jsonscan.Value(properties).Members() {
		name, _ := raw.Text()
		at := append(slices.Clone(path), name)
		var header, kind jsontext.Value
		fields{"x-mcp-header": &header, "type": &kind}.read(jsontext.Value(property))
		if len(header) > 0 {
			said, _ := text(header)
			of, _ := text(kind)
			isKnown := slices.ContainsFunc(known, func(b boundHeader) bool { return strings.EqualFold(b.name, headerParam+said) })
			if !headerToken.MatchString(said) || isKnown || !slices.Contains([]string{"string", "integer", "boolean"}, of) {
				return nil, fmt.Errorf("x-mcp-header of the property %s must name a header that no other property names, and the property must be a string, an integer or a boolean", strings.Join(at, "."))
			}
			if len(known) == maxHeaders {
				return nil, fmt.Errorf("x-mcp-header stands more than %d times in its schema", maxHeaders)
			}
			known = append(known, boundHeader{at, headerParam + said})
		}
		var err error
		if known, err = boundHeaders(known, jsontext.Value(property), at); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// agree reports whether the headers repeat the arguments.
func agree(headers []boundHeader, arguments jsontext.Value, header http.Header) bool {
	for _, b := range headers {
		value := arguments
		for _, name := range b.path {
			var member jsontext.Value
			fields{name: &member}.read(value)
			value = member
		}
		sent := header.Get(b.name)
		if len(value) == 0 || value.Kind() == kindNull {
			if sent != "" {
				return false
			}
			continue
		}
		said, ok := headerText(sent)
		if sent == "" || !ok || !repeats(said, value) {
			return false
		}
	}
	return true
}

// maxSafe bounds the integers that every client can write: 2^53 - 1.
const maxSafe = 1<<53 - 1

// repeats reports whether a header has the value of an argument.
func repeats(said string, argument jsontext.Value) bool {
	switch argument.Kind() {
	case kindText:
		value, _ := text(argument)
		return said == value
	case kindNumber:
		value, err := strconv.ParseFloat(string(argument), 64)
		told, wrong := strconv.ParseFloat(said, 64)
		return err == nil && wrong == nil && value == told && value == math.Trunc(value) && math.Abs(value) <= maxSafe
	case 't', 'f':
		return said == string(argument)
	}
	return false
}
