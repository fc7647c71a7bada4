// Package consoletest tests the templates of a package of the console's pages.
package consoletest

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"waybill.dev/services/api/internal/console"
)

// Templates executes every template of a module with each of its samples, by the name of the template's file. Each
// template needs at least two samples: empty and full. The output must be well-formed, and contain nothing that the policy
// forbids or that hostile text could have brought in: no script, no style, no handler, no address that is not http, no
// character that reverses the direction of writing.
func Templates(t *testing.T, m console.Module, samples map[string][]any) {
	t.Helper()
	names, err := fs.Glob(m.Templates, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = path.Base(names[i])
	}
	for _, name := range names {
		if strings.HasPrefix(name, "_") {
			continue
		}
		if len(samples[name]) < 2 {
			t.Errorf("%s has %d samples, want two: empty and full", name, len(samples[name]))
		}
		for i, data := range samples[name] {
			text, err := console.Execute(m, name, data)
			if err != nil {
				t.Errorf("%s with sample %d: %v", name, i, err)
				continue
			}
			if err := Check(text); err != nil {
				t.Errorf("%s with sample %d: %v\n%s", name, i, err, text)
			}
		}
	}
	for name := range samples {
		if !slices.Contains(names, name) {
			t.Errorf("there are samples for %s, which there is not", name)
		}
	}
}

// pointer matches a pointer as fmt writes it, also with its digits grouped as those of a number.
var pointer = regexp.MustCompile(`&lt;nil&gt;|0x[0-9a-f\x{202f}]{9}`)

// Check returns what is wrong with a part of a page.
func Check(text string) error {
	if pointer.MatchString(text) {
		return errors.New("a pointer is written, or nil")
	}
	tokens := html.NewTokenizer(strings.NewReader(text))
	var open []string
	for {
		kind := tokens.Next()
		switch kind {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				return err
			}
			if len(open) > 0 {
				return errors.New("not closed: " + strings.Join(open, ", "))
			}
			return nil
		case html.TextToken, html.CommentToken, html.DoctypeToken:
			if strings.ContainsFunc(string(tokens.Text()), steers) {
				return errors.New("a character that steers the eye is not made visible")
			}
		case html.EndTagToken:
			name, _ := tokens.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				return errors.New("closed, but not open: " + string(name))
			}
			open = open[:len(open)-1]
		case html.StartTagToken, html.SelfClosingTagToken:
			token := tokens.Token()
			if err := forbidden(token); err != nil {
				return err
			}
			if kind == html.StartTagToken && !isVoid(token.Data) {
				open = append(open, token.Data)
			}
		}
	}
}

func isVoid(name string) bool {
	return slices.Contains([]string{"input", "br", "hr", "img", "meta", "link", "wbr", "col"}, name)
}

// forbidden returns an error if an element has something that no page may have.
func forbidden(token html.Token) error {
	if slices.Contains([]string{"script", "style", "iframe", "object", "embed", "base"}, token.Data) {
		return errors.New("a page may have no element " + token.Data)
	}
	for _, a := range token.Attr {
		switch {
		case a.Key == "style", strings.HasPrefix(a.Key, "on"):
			return errors.New("a page may have no attribute " + a.Key)
		case a.Key == "href" || a.Key == "action" || a.Key == "formaction" || a.Key == "src":
			scheme, _, ok := strings.Cut(a.Val, ":")
			if ok && !strings.ContainsAny(scheme, "/?#") && scheme != "http" && scheme != "https" {
				return errors.New("a page may not lead to " + a.Val)
			}
		}
	}
	return nil
}

func steers(r rune) bool {
	return unicode.Is(unicode.Bidi_Control, r) || r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0x7f
}
