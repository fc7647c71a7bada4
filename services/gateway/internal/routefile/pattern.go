package routefile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// parsePattern reads a path of mode url-pattern: :name, :name(regular expression),
// (regular expression) and *. The last two are numbered. A \ before a character takes its
// meaning away.
func parsePattern(path string) (parts []templatePart, err error) {
	r := patternReader{rest: path}
	for r.rest != "" && err == nil {
		err = r.next()
	}
	if err == nil {
		r.parts, err = appendLiteral(r.parts, r.literal.String())
	}
	return r.parts, err
}

type patternReader struct {
	rest    string
	literal strings.Builder
	parts   []templatePart
	unnamed int
}

func (r *patternReader) next() error {
	switch c := r.rest[0]; c {
	case '\\':
		if len(r.rest) < 2 {
			return errors.New("the path ends with a \\")
		}
		r.literal.WriteByte(r.rest[1])
		r.rest = r.rest[2:]
		return nil
	case ':':
		end := 1
		for end < len(r.rest) && isName(r.rest[end], end == 1) {
			end++
		}
		name := r.rest[1:end]
		if name == "" {
			return errors.New("the path has a : without a name")
		}
		r.rest = r.rest[end:]
		return r.parameter(templatePart{name: name})
	case '(':
		return r.parameter(r.number())
	case '*':
		r.rest = r.rest[1:]
		p := r.number()
		p.pattern = ".*"
		return r.add(p)
	case '{', '}', '?', '+', '#', ')':
		return fmt.Errorf("the path has a %c, which this gateway does not know in a url-pattern; \\%c stands for itself", c, c)
	default:
		r.literal.WriteByte(c)
		r.rest = r.rest[1:]
		return nil
	}
}

func (r *patternReader) number() templatePart {
	p := templatePart{name: strconv.Itoa(r.unnamed), unnamed: true}
	r.unnamed++
	return p
}

// parameter reads the regular expression of a parameter, where there is one.
func (r *patternReader) parameter(p templatePart) error {
	if strings.HasPrefix(r.rest, "(") {
		end := closing(r.rest)
		if end < 0 {
			return errors.New("the path has a ( without a )")
		}
		p.pattern, r.rest = r.rest[1:end], r.rest[end+1:]
		if _, err := regexp.Compile(p.pattern); err != nil || p.pattern == "" || p.pattern[0] == '?' {
			return fmt.Errorf("the path's parameter %s has no regular expression of RE2", p.name)
		}
	}
	return r.add(p)
}

func (r *patternReader) add(p templatePart) (err error) {
	r.parts, err = appendLiteral(r.parts, r.literal.String())
	r.literal.Reset()
	if n := len(r.parts); err == nil && n > 0 && r.parts[n-1].name != "" && r.parts[n-1].pattern == "" && p.pattern == "" {
		return fmt.Errorf("nothing tells the parameters %s and %s of the path apart", r.parts[n-1].name, p.name)
	}
	r.parts = append(r.parts, p)
	return err
}

// closing returns the position of the parenthesis that closes the one at the beginning of text; -1:
// there is none.
func closing(text string) int {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

func isName(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}
