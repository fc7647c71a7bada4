package docsite

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown converts guides. HTML in a guide is shown as text, and comments are left out.
type markdown struct {
	goldmark.Markdown

	known map[string]bool // the names of guides
}

func newMarkdown(known map[string]bool) *markdown {
	m := &markdown{known: known}
	m.Markdown = goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(m, 100))),
	)
	return m
}

// guide converts a guide.
func (m *markdown) guide(name string, source []byte) (guide, error) {
	g := guide{Name: name}
	root := m.Parser().Parse(text.NewReader(source))
	at := entry{Path: "/docs/" + name}
	flush := func() {
		if at.Title != "" {
			g.sections = append(g.sections, at)
		}
	}
	for node := root.FirstChild(); node != nil; node = node.NextSibling() {
		h, ok := node.(*ast.Heading)
		if !ok {
			words := plain(node, source)
			if _, ok := node.(*ast.Paragraph); ok && g.Lede == "" && len(g.sections) == 0 {
				g.Lede = words
			}
			at.text += words + "\n"
			continue
		}
		title := plain(h, source)
		if h.Level == 1 {
			g.Title = title
			at.Page, at.Title = title, title
			continue
		}
		flush()
		id, _ := h.AttributeString("id")
		one := heading{h.Level, fmt.Sprintf("%s", id), title}
		if h.Level < 4 {
			g.TOC = append(g.TOC, one)
		}
		at = entry{Path: "/docs/" + name + "#" + one.ID, Page: g.Title, Title: title}
	}
	flush()
	if g.Title == "" {
		return g, fmt.Errorf("it has no title")
	}
	var b bytes.Buffer
	if err := m.Renderer().Render(&b, source, root); err != nil {
		return g, fmt.Errorf("write HTML: %w", err)
	}
	g.HTML = template.HTML(b.String()) //nolint:gosec // goldmark and the functions below escape all text, HTML too
	return g, nil
}

// write returns the HTML of a text that is part of another document.
func (m *markdown) write(source string) (template.HTML, error) {
	var b bytes.Buffer
	if err := m.Convert([]byte(source), &b); err != nil {
		return "", fmt.Errorf("write HTML: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // as above
}

// plain returns the text below a node.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // can't fail: the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(lines(n, source))
			}
		case *extensionast.TableCell, *ast.ListItem:
			if !entering {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

func lines(n ast.Node, source []byte) []byte {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(source))
	}
	return b.Bytes()
}

// RegisterFuncs registers the functions for nodes that are written differently than by goldmark.
func (m *markdown) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, heads)
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindLink, m.link)
	r.Register(ast.KindAutoLink, m.autoLink)
	r.Register(ast.KindImage, image)
	r.Register(ast.KindRawHTML, inlineHTML)
	r.Register(ast.KindHTMLBlock, blockHTML)
	r.Register(extensionast.KindTable, table)
}

// heads writes a heading with a link to itself.
func heads(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading) //nolint:forcetypeassert,errcheck // registered for its kind
	id, _ := h.AttributeString("id")
	switch {
	case entering && h.Level == 1:
		_, _ = w.WriteString("<h1>")
	case entering:
		_, _ = fmt.Fprintf(w, `<h%d id="%s">`, h.Level, id)
	case h.Level == 1:
		_, _ = w.WriteString("</h1>\n")
	default:
		_, _ = fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to “%s”">#</a></h%d>`+"\n",
			id, template.HTMLEscapeString(plain(h, source)), h.Level)
	}
	return ast.WalkContinue, nil
}

// code writes a block with a button that copies it.
func code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.FencedCodeBlock) //nolint:forcetypeassert,errcheck // registered for its kind
	element, language, content := "div", string(block.Language(source)), string(lines(block, source))
	if language == "json" {
		element = "wb-json"
	}
	_, _ = fmt.Fprintf(w, `<%s class="code"><pre tabindex="0"><code>%s</code></pre><wb-copy data-text="%s"></wb-copy></%s>`+"\n",
		element, template.HTMLEscapeString(strings.TrimSuffix(content, "\n")), template.HTMLEscapeString(typed(language, content)), element)
	return ast.WalkSkipChildren, nil
}

// typed returns what a person would type of a block: of a console session, only the commands.
func typed(language, content string) string {
	if language != "console" {
		return strings.TrimSuffix(content, "\n")
	}
	var commands []string
	goesOn := false
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		command, ok := strings.CutPrefix(line, "$ ")
		if ok || goesOn {
			commands = append(commands, command)
			goesOn = strings.HasSuffix(line, `\`)
		}
	}
	return strings.Join(commands, "\n")
}

// link writes a link to another guide as a link to its page. Targets that the site does not have,
// such as source files, are not linked.
func (m *markdown) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	l := node.(*ast.Link) //nolint:forcetypeassert,errcheck // registered for its kind
	to, tag := m.target(string(l.Destination)), "a"
	switch {
	case to == "":
		tag = "span"
		if entering {
			_, _ = fmt.Fprintf(w, `<span title="In the sources: %s">`, template.HTMLEscapeString(path.Join("docs", string(l.Destination))))
		}
	case entering && strings.HasPrefix(to, "http"):
		_, _ = fmt.Fprintf(w, `<a href="%s" rel="noreferrer">`, template.HTMLEscapeString(to))
	case entering:
		_, _ = fmt.Fprintf(w, `<a href="%s">`, template.HTMLEscapeString(to))
	}
	if !entering {
		_, _ = fmt.Fprintf(w, "</%s>", tag)
	}
	return ast.WalkContinue, nil
}

// autoLink writes an address that is not inside a link.
func (m *markdown) autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		l := node.(*ast.AutoLink) //nolint:forcetypeassert,errcheck // registered for its kind
		_, _ = fmt.Fprintf(w, `<a href="%s">%s</a>`,
			template.HTMLEscapeString(m.target(string(l.URL(source)))), template.HTMLEscapeString(string(l.Label(source))))
	}
	return ast.WalkContinue, nil
}

// inlineHTML writes HTML-like text within a line, such as <account>, as text.
func inlineHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		h := node.(*ast.RawHTML) //nolint:forcetypeassert,errcheck // registered for its kind
		writeHTML(w, h.Segments.Value(source))
	}
	return ast.WalkSkipChildren, nil
}

// blockHTML writes HTML on lines of its own as text.
func blockHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		writeHTML(w, lines(node, source))
	}
	return ast.WalkSkipChildren, nil
}

func writeHTML(w util.BufWriter, raw []byte) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<!--")) {
		_, _ = w.WriteString(template.HTMLEscapeString(string(raw)))
	}
}

// ownAddress is the beginning of links to the pages of `waybill dev`, which are the pages of this
// site.
const ownAddress = "http://127.0.0.1:8080"

// target returns the target of a link on this site; empty: none.
func (m *markdown) target(to string) string {
	if own, ok := strings.CutPrefix(to, ownAddress+"/"); ok {
		return "/" + own
	}
	if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "/") {
		return to
	}
	file, fragment, found := strings.Cut(to, "#")
	name, ok := strings.CutSuffix(file, ".md")
	if !ok || !m.known[name] {
		return ""
	}
	if found {
		return "/docs/" + name + "#" + fragment
	}
	return "/docs/" + name
}

// image writes a figure of the guides.
func image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		i := node.(*ast.Image) //nolint:forcetypeassert,errcheck // registered for its kind
		_, _ = fmt.Fprintf(w, `<img src="/docs/%s" alt="%s" loading="lazy">`,
			template.HTMLEscapeString(path.Base(string(i.Destination))), template.HTMLEscapeString(plain(i, source)))
	}
	return ast.WalkSkipChildren, nil
}

// table writes a table in a frame that can be scrolled when the table is wider than the page.
func table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="scroll" tabindex="0"><table class="list wraps">` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}
