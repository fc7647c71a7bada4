package bundle

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Files with rules. Git's rules apply to the folder of their file. Our own file is in the uploaded
// folder, has the same form, and takes precedence.
const (
	gitRules = ".gitignore"
	ownRules = ".waybillignore"
)

// usual are the rules for files that people never want to upload.
const usual = `
__MACOSX/
Thumbs.db
desktop.ini
node_modules/
*~
`

// rules say what is left out. A later rule takes precedence over an earlier one.
type rules struct{ usual, git, own []rule }

type rule struct {
	base    string // the folder to which the rule applies; .: all
	pattern *regexp.Regexp
	folders bool // the rule matches only folders
	keep    bool // files that match are not left out
}

// read adds the rules of a file, which may be missing.
func (r *rules) read(files fs.FS, folder, name string) error {
	text, err := fs.ReadFile(files, path.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if name == ownRules {
		r.own = parse(folder, string(text))
	} else {
		r.git = append(r.git, parse(folder, string(text))...)
	}
	return nil
}

// ignore reports whether the rules leave a file or folder out.
func (r *rules) ignore(name string, folder bool) bool {
	out := false
	for _, list := range [][]rule{r.usual, r.git, r.own} {
		for _, one := range list {
			if one.matches(name, folder) {
				out = !one.keep
			}
		}
	}
	return out
}

func (r rule) matches(name string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	if r.base != "." {
		rest, within := strings.CutPrefix(name, r.base+"/")
		if !within {
			return false
		}
		name = rest
	}
	return r.pattern.MatchString(name)
}

// parse reads rules in the form of .gitignore.
func parse(base, text string) []rule {
	var list []rule
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = trim(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		one := rule{base: base}
		line, one.keep = strings.CutPrefix(line, "!")
		line, one.folders = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if !anchored {
			line = "**/" + line
		}
		if one.pattern = compile(line); one.pattern != nil {
			list = append(list, one)
		}
	}
	return list
}

// trim takes away spaces at the end that no backslash keeps.
func trim(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// compile turns a pattern into a regular expression for whole paths; nil: nothing can match it.
func compile(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || pattern[i-1] == '/'):
			b.WriteString(`(?:.*/)?`)
			i += len("**/")
		case rest == "**" && (i == 0 || pattern[i-1] == '/'):
			b.WriteString(`.+`)
			i += len("**")
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
			i++
		case rest[0] == '?':
			b.WriteString(`[^/]`)
			i++
		case rest[0] == '[':
			class, n := class(rest)
			b.WriteString(class)
			i += n
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	b.WriteString(`\z`)
	expression, err := regexp.Compile(b.String())
	if err != nil {
		return nil
	}
	return expression
}

// class reads a class of characters such as [a-p] or [!0-9], and returns its length. A bracket that
// is not closed is an ordinary character.
func class(text string) (expression string, length int) {
	body := text[1:]
	not := strings.HasPrefix(body, "!") || strings.HasPrefix(body, "^")
	if not {
		body = body[1:]
	}
	end := strings.IndexByte(body[min(1, len(body)):], ']') + 1
	if end == 0 {
		return `\[`, 1
	}
	inner := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(body[:end])
	if not {
		return `[^/` + inner + `]`, len(text) - len(body) + end + 1
	}
	return `[` + inner + `]`, len(text) - len(body) + end + 1
}
