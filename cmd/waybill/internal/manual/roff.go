package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// page is a page of the manual.
type page struct {
	name, version, date string
	section             int
	short, synopsis     string
	long                string // empty: short is enough
	commands            []term
	options, inherited  *pflag.FlagSet // nil: none
	environment, files  []term
	example             string
	related             []string
}

// term is a word with its explanation.
type term struct{ word, meaning string }

func (p page) file() string { return fmt.Sprintf("%s.%d", p.name, p.section) }

// write writes the page in the form of man(7).
func (p page) write(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s %d %s %s %s\n", quoted(strings.ToUpper(p.name)), p.section, quoted(p.date), quoted("waybill "+p.version), quoted("Waybill"))
	section(&b, "NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", escaped(p.name), escaped(p.short))
	section(&b, "SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", quoted(p.synopsis))
	section(&b, "DESCRIPTION")
	if p.long == "" {
		p.long = p.short + "."
	}
	text(&b, p.long)
	terms(&b, "COMMANDS", p.commands)
	terms(&b, "OPTIONS", flags(p.options))
	terms(&b, "OPTIONS OF ALL COMMANDS", flags(p.inherited))
	terms(&b, "ENVIRONMENT", p.environment)
	terms(&b, "FILES", p.files)
	if p.example != "" {
		section(&b, "EXAMPLES")
		text(&b, p.example)
	}
	if len(p.related) > 0 {
		section(&b, "SEE ALSO")
		fmt.Fprintf(&b, "%s\n", escaped(strings.Join(p.related, ", ")))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func section(b *bytes.Buffer, name string) { fmt.Fprintf(b, ".SH %s\n", quoted(name)) }

func terms(b *bytes.Buffer, name string, list []term) {
	if len(list) == 0 {
		return
	}
	section(b, name)
	for _, t := range list {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", quoted(t.word), escaped(t.meaning))
	}
}

// flags returns the options of a flag set, as help shows them.
func flags(set *pflag.FlagSet) []term {
	if set == nil {
		return nil
	}
	var list []term
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		word := "--" + flag.Name
		if flag.Shorthand != "" {
			word = "-" + flag.Shorthand + ", " + word
		}
		value, usage := pflag.UnquoteUsage(flag)
		if value != "" {
			word += " " + value
		}
		list = append(list, term{word, usage})
	})
	return list
}

// text writes paragraphs. Lines that begin with two spaces are not changed.
func text(b *bytes.Buffer, content string) {
	literal := false
	for line := range strings.SplitSeq(strings.Trim(content, "\n"), "\n") {
		shown := strings.HasPrefix(line, "  ")
		switch {
		case shown && !literal:
			b.WriteString(".PP\n.nf\n")
		case !shown && literal && line != "":
			b.WriteString(".fi\n.PP\n")
		case line == "":
			b.WriteString(".PP\n")
			continue
		}
		literal = shown
		fmt.Fprintf(b, "%s\n", escaped(line))
	}
	if literal {
		b.WriteString(".fi\n")
	}
}

// quoted returns text as one argument of a macro.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"`
}

// escaped escapes text, so that roff finds no requests in it.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
