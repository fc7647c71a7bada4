package docsite

import (
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
)

// guide is a page of the folder docs.
type guide struct {
	Name  string // name of its file, without .md
	Title string
	Lede  string // its first paragraph, as text
	HTML  template.HTML
	TOC   []heading

	sections []entry
}

// heading is a line in the table of a page's contents.
type heading struct {
	Level    int
	ID, Text string
}

// group is a part of the navigation.
type group struct {
	Label string
	Links []link
}

type link struct{ Name, Label, Lede string }

// Path returns the target of the link.
func (l link) Path() string { return "/docs/" + l.Name }

// readGuides reads the Markdown files, in the order of their names.
func readGuides(files fs.FS) ([]guide, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, fmt.Errorf("list guides: %w", err)
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[strings.TrimSuffix(name, ".md")] = true
	}
	m := newMarkdown(known)
	guides := make([]guide, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read guide: %w", err)
		}
		if guides[i], err = m.guide(strings.TrimSuffix(name, ".md"), text); err != nil {
			return nil, fmt.Errorf("read guide %s: %w", name, err)
		}
	}
	return guides, nil
}

// navigation returns the groups. A guide that no group names is added to the guides, by its title.
func navigation(guides []guide) []group {
	groups := []group{
		{Label: "Guides", Links: []link{
			{Name: "producers", Label: "Producers"}, {Name: "receivers", Label: "Receivers"}, {Name: "feed", Label: "Feeds"}, {Name: "deliveries", Label: "Deliveries"},
			{Name: "insight", Label: "Insight"}, {Name: "console", Label: "Console"}, {Name: "lists", Label: "Lists"},
			{Name: "access", Label: "Access"}, {Name: "gateway", Label: "Gateway routes"}, {Name: "policies", Label: "Policies"},
			{Name: "deployments", Label: "Deployments"}, {Name: "domains", Label: "Custom domains"}, {Name: "certificates", Label: "Client certificates"}, {Name: "metering", Label: "Metering"}, {Name: "tunnels", Label: "Tunnels"}, {Name: "mcp", Label: "AI clients (MCP)"},
		}},
		{Label: "Operation", Links: []link{
			{Name: "install", Label: "Install"}, {Name: "kubernetes", Label: "Kubernetes"}, {Name: "tls", Label: "TLS and proxies"}, {Name: "operators", Label: "Operators"}, {Name: "security", Label: "Security model"}, {Name: "runbook", Label: "Runbook"}, {Name: "troubleshooting", Label: "Troubleshooting"}, {Name: "upgrade", Label: "Upgrade"}, {Name: "backup", Label: "Backup"}, {Name: "limits", Label: "Limits"},
			{Name: "scaling", Label: "Scaling"}, {Name: "performance", Label: "Performance"},
		}},
		{Label: "Reference", Links: []link{
			{Name: "http", Label: "HTTP API", Lede: "Every operation, with its parameters, its answers and examples, to read and to try."},
			{Name: "asyncapi", Label: "Bus", Lede: "Publishing on NATS: subjects, messages and their headers."},
			{Name: "errors", Label: "Error codes"},
			{Name: "mcp-tools", Label: "MCP tools"},
			{Name: "problems", Label: "Problem types", Lede: "What each error means, and what to do about it."},
			{Name: "glossary", Label: "Glossary"},
		}},
		{Label: "Inside", Links: []link{{Name: "architecture", Label: "Architecture"}, {Name: "design", Label: "Design"}}},
	}
	placed := make(map[string]bool)
	for i := range groups {
		groups[i].Links = slices.DeleteFunc(groups[i].Links, func(l link) bool {
			placed[l.Name] = true
			return l.Lede == "" && !slices.ContainsFunc(guides, func(g guide) bool { return g.Name == l.Name })
		})
		for j := range groups[i].Links {
			for _, g := range guides {
				if g.Name == groups[i].Links[j].Name {
					groups[i].Links[j].Lede = g.Lede
				}
			}
		}
	}
	for _, g := range guides {
		if !placed[g.Name] {
			groups[0].Links = append(groups[0].Links, link{g.Name, g.Title, g.Lede})
		}
	}
	return groups
}

func (c *content) addGuides(guides []guide) error {
	for _, g := range guides {
		if err := c.add("guide.html", frame{Name: g.Name, Title: g.Title, TOC: g.TOC, Data: g.HTML}); err != nil {
			return err
		}
		c.index.add(g.sections...)
	}
	return c.add("overview.html", frame{Title: "Documentation", Data: c.nav})
}
