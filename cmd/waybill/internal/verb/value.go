package verb

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/rfc3339"
)

// Kind is the form of a flag's value.
type Kind int

// The kinds.
const (
	Text    Kind = iota
	Words        // several, separated by commas or given one by one
	Pairs        // name=value, given one at a time
	Bool         //
	Integer      //
	Number       //
	Rate         // a number, or none
	Numbers      // separated by commas
	Object       // a JSON object
	Past         // a time, or how long ago
	Future       // a time, or how long from now
	Seconds      // a duration, sent in seconds
	Address      // a URL, which may have no scheme if it is on this machine
)

// stamp is the format in which times are sent.
const stamp = "2006-01-02T15:04:05.000Z"

// word returns the placeholder that help shows for a value of the kind.
func (k Kind) word() string {
	return map[Kind]string{
		Text: "text", Words: "list", Pairs: "name=value", Integer: "number", Number: "number", Rate: "number",
		Numbers: "list", Object: "json", Past: "time", Future: "time", Seconds: "duration", Address: "URL",
	}[k]
}

// Value is the value of a flag. It implements pflag.Value.
type Value struct {
	flag Flag
	now  func() time.Time

	set    bool
	text   string
	parsed any // in the form for JSON
}

// NewValue returns the value of a flag that was not given yet.
func NewValue(f Flag, now func() time.Time) *Value { return &Value{flag: f, now: now} }

// Type implements pflag.Value.
func (v *Value) Type() string {
	if v.flag.Kind == Bool {
		return "bool"
	}
	return v.flag.Kind.word()
}

// String implements pflag.Value.
func (v *Value) String() string { return v.text }

// Set implements pflag.Value. A flag that takes several values may be set again.
func (v *Value) Set(text string) error {
	parsed, err := v.parse(text)
	if err != nil {
		return err
	}
	v.set, v.text, v.parsed = true, text, parsed
	return nil
}

func (v *Value) parse(text string) (any, error) {
	switch v.flag.Kind {
	case Words:
		return v.words(text)
	case Pairs:
		return v.pairs(text)
	case Bool:
		return one(strconv.ParseBool(text))("true or false")
	case Integer:
		return one(strconv.ParseInt(text, 10, 64))("a whole number")
	case Number:
		return finite(text)
	case Rate:
		if text == "none" {
			return json.RawMessage("null"), nil
		}
		return finite(text)
	case Numbers:
		return numbers(text)
	case Object:
		return object(text)
	case Past, Future:
		return v.time(text)
	case Seconds:
		d, err := time.ParseDuration(text)
		return one(d.Seconds(), err)("a duration such as 90s or 24h")
	case Address:
		return client.WithScheme(text), nil
	default:
		return text, v.among(text)
	}
}

// one turns a parser's error into one sentence.
func one[T any](value T, err error) func(string) (any, error) {
	return func(want string) (any, error) {
		if err != nil {
			return nil, errors.New("must be " + want)
		}
		return value, nil
	}
}

func finite(text string) (any, error) {
	number, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(number) || math.IsInf(number, 0)) {
		err = strconv.ErrRange
	}
	return one(number, err)("a number")
}

func (v *Value) among(text string) error {
	if len(v.flag.Choices) > 0 && !slices.Contains(v.flag.Choices, text) {
		return fmt.Errorf("must be one of %s", strings.Join(v.flag.Choices, ", "))
	}
	return nil
}

func (v *Value) words(text string) (any, error) {
	words, _ := v.parsed.([]string)
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if err := v.among(word); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

// pairs keeps everything after the first = unchanged, including commas. An empty text makes an
// empty list, which removes all pairs.
func (v *Value) pairs(text string) (any, error) {
	pairs, ok := v.parsed.(map[string]string)
	if !ok {
		pairs = make(map[string]string)
	}
	if text == "" {
		return pairs, nil
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return nil, errors.New("must be name=value")
	}
	if _, twice := pairs[name]; twice {
		return nil, errors.New("has the same name twice")
	}
	pairs[name] = value
	return pairs, nil
}

func numbers(text string) (any, error) {
	list := []any{}
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		number, err := finite(strings.TrimSpace(part))
		if err != nil {
			return nil, errors.New("must be numbers separated by commas")
		}
		list = append(list, number)
	}
	return list, nil
}

func object(text string) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		return nil, errors.New(`must be a JSON object such as {"plan":"gold"}`)
	}
	return json.RawMessage(text), nil
}

// time reads a time, or a duration from now in the direction of the kind.
func (v *Value) time(text string) (any, error) {
	if at, ok := rfc3339.Parse(text); ok {
		return at.Format(stamp), nil
	}
	distance, err := time.ParseDuration(text)
	if err != nil || distance < 0 {
		return nil, errors.New("must be a time such as 2026-12-01T00:00:00Z, or a duration such as 36h")
	}
	if v.flag.Kind == Past {
		distance = -distance
	}
	return v.now().Add(distance).UTC().Format(stamp), nil
}

// query returns the value as parameters.
func (v *Value) query() map[string]string {
	pairs, ok := v.parsed.(map[string]string)
	if !ok {
		return map[string]string{v.flag.target(): fmt.Sprint(v.parsed)}
	}
	parameters := make(map[string]string, len(pairs))
	for name, value := range pairs {
		parameters[v.flag.target()+"."+name] = value
	}
	return parameters
}
