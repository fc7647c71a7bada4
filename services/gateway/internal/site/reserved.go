package site

import (
	"strings"

	"waybill.dev/services/gateway/internal/routefile"
)

// servedBy returns which of the reserved templates takes every path of the operation, so that the
// operation would never be asked; "" for none. Paths of url-pattern that have expressions
// are taken for wider than any template.
func (b *builder) servedBy(op *routefile.Operation) string {
	shape, ok := shapeOf(op)
	if !ok {
		return ""
	}
	for i, template := range b.reserved {
		if covers(template, shape) {
			return b.limits.Reserved[i]
		}
	}
	return ""
}

// covers reports whether each segment of a template is a parameter, or equals that of shape.
func covers(template, shape []string) bool {
	if len(template) != len(shape) {
		return false
	}
	for i, segment := range template {
		if !strings.HasPrefix(segment, "{") && segment != shape[i] {
			return false
		}
	}
	return true
}

// shapeOf returns the path's segments without a slash at the end, with {} for each parameter. ok is false when a
// segment is a pattern, which can't be compared.
func shapeOf(op *routefile.Operation) ([]string, bool) {
	segments := strings.Split(strings.TrimSuffix(op.Path, "/"), "/")
	for i, segment := range segments {
		if op.Mode != routefile.URLPattern {
			if strings.Contains(segment, "{") {
				segments[i] = "{}"
			}
			continue
		}
		if name, ok := strings.CutPrefix(segment, ":"); ok && !strings.ContainsAny(name, special(op.Mode)) {
			segments[i] = "{}"
		} else if strings.ContainsAny(segment, special(op.Mode)) {
			return nil, false
		}
	}
	return segments, true
}
