package web

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"waybill.dev/shared/input"
)

// Bounds of fields that several kinds of resources have.
const (
	MaxDescription = 1024 // characters
	MaxExtra       = 16 << 10
	maxTags        = 50
	tagPrefix      = "tag."
)

// ExtraTooLarge is the fault of tags, or metadata, of more than MaxExtra bytes as JSON.
const ExtraTooLarge = "must have at most 16 KiB"

// Changes are the changes to a T in a request, collected before the whole request has been checked.
type Changes[T any] []func(*T)

// Add adds a change.
func (c *Changes[T]) Add(change func(*T)) { *c = append(*c, change) }

// Apply makes the changes to v.
func (c *Changes[T]) Apply(v *T) {
	for _, change := range *c {
		change(v)
	}
}

// Make is Apply for callers whose changes may be refused; it never refuses any.
func (c *Changes[T]) Make(v *T) error {
	c.Apply(v)
	return nil
}

// ReadName reads a name of minimum to maximum lower-case letters, digits and hyphens, which
// must be there.
func ReadName(f *input.Form, minimum, maximum int) string {
	f.Require("name")
	name, ok := f.Text("name", 0, math.MaxInt32)
	if ok && !validName(name, minimum, maximum) {
		f.Fault(fmt.Sprintf("must match ^[a-z0-9-]{%d,%d}$", minimum, maximum), "name")
	}
	return name
}

func validName(name string, minimum, maximum int) bool {
	if len(name) < minimum || len(name) > maximum {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ReadTags reads tags, which replace all existing ones.
func ReadTags(f *input.Form) (tags map[string]string, ok bool) {
	pairs, ok := f.Pairs("tags", maxTags)
	if !ok {
		return nil, false
	}
	tags, size := make(map[string]string, len(pairs)), 0
	for _, pair := range pairs {
		tags[pair.Name] = pair.Value
		size += len(pair.Name) + len(pair.Value) + len(`"":"",`)
	}
	if size > MaxExtra {
		f.Fault(ExtraTooLarge, "tags")
		return nil, false
	}
	return tags, true
}

// Tags reads the tags that the query wants a resource to have; nil: none.
func (c *Call) Tags() map[string]string { return c.Query().Prefixed(tagPrefix) }

// ReadChoice reads a member that must be one of the allowed values.
func ReadChoice[T ~string](f *input.Form, name string, allowed []T) (value T, ok bool) {
	text, ok := f.Text(name, 1, 64)
	if !ok {
		return "", false
	}
	if !slices.Contains(allowed, T(text)) {
		f.Fault(MustBeOneOf(allowed), name)
		return "", false
	}
	return T(text), true
}

// MustBeOneOf is the fault of a value that is not one of the allowed ones.
func MustBeOneOf[T ~string](allowed []T) string {
	words := make([]string, len(allowed))
	for i, value := range allowed {
		words[i] = string(value)
	}
	return "must be one of " + strings.Join(words, ", ")
}

// PathIn returns the path of something that belongs to an account.
func PathIn(account string, segments ...string) string {
	var b strings.Builder
	b.WriteString(accountsPath)
	for _, segment := range append([]string{account}, segments...) {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(segment))
	}
	return b.String()
}
