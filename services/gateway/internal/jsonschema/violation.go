package jsonschema

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"waybill.dev/shared/jsonscan"
)

// maxViolations bounds the violations that are reported for one value: a long value may be wrong
// everywhere.
const maxViolations = jsonscan.MaxFaults

// Violation is one fault of a value: its place, as a JSON pointer, and a description. Detail never
// repeats the value.
type Violation struct{ Pointer, Detail string }

// violations returns the innermost causes, in the order of their places. If no branch of a choice
// fits, that is reported once, without the faults of the branches.
func violations(err *library.ValidationError) []Violation {
	var found []Violation
	collect(err, &found)
	slices.SortFunc(found, func(a, b Violation) int {
		if n := strings.Compare(a.Pointer, b.Pointer); n != 0 {
			return n
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	found = slices.Compact(found)
	if len(found) > maxViolations {
		found = append(found[:maxViolations-1:maxViolations-1], Violation{Detail: jsonscan.More})
	}
	return found
}

func collect(err *library.ValidationError, found *[]Violation) {
	add := func(detail string, parts ...string) {
		if len(*found) <= maxViolations {
			pointer, whole := jsonscan.Below("", slices.Concat(err.InstanceLocation, parts)...)
			*found = append(*found, Violation{pointer, jsonscan.WithLongName(detail, whole)})
		}
	}
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		add(choice(k))
	case *kind.Contains, *kind.MinContains:
		add(lacksElement)
	case *kind.PropertyNames:
		add("has a name that is not allowed", k.Property)
	case *kind.Required:
		for _, name := range k.Missing {
			add("is required", name)
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add("is not a known member", name)
		}
	case *kind.Dependency:
		for _, name := range k.Missing {
			add("is required", name)
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add("is required", name)
		}
	default:
		if len(err.Causes) == 0 {
			add(detail(err.ErrorKind))
		}
		for _, cause := range err.Causes {
			collect(cause, found)
		}
	}
}

func choice(k library.ErrorKind) string {
	if one, ok := k.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
		return "fits more than one of the allowed forms"
	}
	return "fits none of the allowed forms"
}

const lacksElement = "lacks a required element"

// detail describes the requirement of a keyword.
func detail(k library.ErrorKind) string {
	switch k := k.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return choice(k)
	case *kind.Contains:
		return lacksElement
	case *kind.Type:
		return "must be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		if told, ok := errors.AsType[formatError](k.Err); ok {
			return string(told)
		}
		return "must have the format " + k.Want
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Not:
		return "has a form that is not allowed"
	case *kind.UniqueItems:
		return "must not have the same element twice"
	case *kind.AdditionalItems:
		return "has elements that are not allowed"
	case *kind.ContentEncoding:
		return "must be encoded as " + k.Want
	case *kind.ContentMediaType, *kind.ContentSchema:
		return "must contain what its media type says"
	}
	return bound(k)
}

// bound describes the requirement of a keyword with a number.
func bound(k library.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return "must have " + count(k.Want, "character") + " or more"
	case *kind.MaxLength:
		return "must have " + count(k.Want, "character") + " or fewer"
	case *kind.MinItems:
		return "must have " + count(k.Want, "element") + " or more"
	case *kind.MaxItems:
		return "must have " + count(k.Want, "element") + " or fewer"
	case *kind.MaxContains:
		return "has an element too often"
	case *kind.MinProperties:
		return "must have " + count(k.Want, "member") + " or more"
	case *kind.MaxProperties:
		return "must have " + count(k.Want, "member") + " or fewer"
	case *kind.Minimum:
		return "must be " + number(k.Want) + " or more"
	case *kind.Maximum:
		return "must be " + number(k.Want) + " or less"
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	}
	return "does not fit the schema"
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// list writes values of a schema, as many as a sentence bears.
func list(values []any) string {
	const most = 20
	var words []string
	for i, value := range values {
		if i == most {
			words = append(words, "…")
			break
		}
		text, err := json.Marshal(value)
		if err != nil || len(text) > 100 {
			text = []byte("…")
		}
		words = append(words, string(text))
	}
	return strings.Join(words, ", ")
}
