package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/settings"
)

// commandPages returns a page for each command, the first for the root.
func commandPages(cmd *cobra.Command) []page {
	pages := []page{commandPage(cmd)}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, commandPages(c)...)
		}
	}
	return pages
}

func commandPage(cmd *cobra.Command) page {
	cmd.InitDefaultHelpFlag()
	p := page{
		name: dashed(cmd), section: 1, short: cmd.Short, synopsis: cmd.UseLine(), long: cmd.Long,
		options: cmd.LocalFlags(), inherited: cmd.InheritedFlags(), example: cmd.Example,
	}
	if cmd.HasParent() {
		p.related = append(p.related, dashed(cmd.Parent())+"(1)")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			p.commands = append(p.commands, term{dashed(c) + "(1)", c.Short})
		}
	}
	switch dashed(cmd) {
	case "waybill":
		p.related = append(p.related, names(services())...)
	case "waybill-dev":
		p.environment, p.files = variables(settings.Dev), []term{{"/etc/waybill/waybill.env", "settings of waybill.service, which runs waybill dev"}}
	case "waybill-migrate":
		p.related = append(p.related, names(services())...)
	}
	return p
}

func dashed(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// service is a program without subcommands.
type service struct {
	name, short, long string
	role              settings.Role
}

func services() []service {
	const common = "It takes its settings from flags, from the environment, or from the file that WAYBILL_CONFIG\n" +
		"names, in this order. SIGTERM ends it: it takes no more work, and finishes what is in flight\n" +
		"within 30 seconds. It does not start while a migration of the database is pending: see\n" +
		"waybill-migrate(1)."
	return []service{
		{"api", "Waybill's API as a service", "Accepts events and serves the API, the console and the gateway routes that come with\n" +
			"Waybill, on NATS and PostgreSQL.\n\n" + common, settings.API},
		{"dispatcher", "Waybill's dispatcher as a service", "Delivers events to webhooks: signed, retried and recorded. Start as many as you need; they\n" +
			"divide the work.\n\n" + common, settings.Dispatcher},
		{"gateway", "Waybill's gateway as a service", "Serves the routes of deployments, on NATS and PostgreSQL.\n\n" + common, settings.Gateway},
	}
}

func names(list []service) []string {
	pages := make([]string, 0, len(list))
	for _, s := range list {
		pages = append(pages, "waybill-"+s.name+"(8)")
	}
	return pages
}

func servicePages() []page {
	var pages []page
	for _, s := range services() {
		flags := pflag.NewFlagSet("waybill-"+s.name, pflag.ContinueOnError)
		boot.BindSettings(flags, s.role)
		flags.Bool("version", false, "print the version")
		pages = append(pages, page{
			name: flags.Name(), section: 8, short: s.short, synopsis: flags.Name() + " [flags]", long: s.long,
			options: flags, environment: variables(s.role),
			files: []term{{"/etc/waybill/" + s.name + ".env", "settings of waybill-" + s.name + ".service"}},
			related: slices.DeleteFunc(append([]string{"waybill(1)", "waybill-migrate(1)"}, names(services())...), func(other string) bool {
				return other == flags.Name()+"(8)"
			}),
		})
	}
	return pages
}

// variables returns the settings of a role that have no flag.
func variables(role settings.Role) []term {
	var list []term
	for _, spec := range settings.Specs() {
		if !spec.UsedBy(role) || spec.Flag != "" {
			continue
		}
		text := spec.Usage
		switch {
		case spec.Required(role):
			text += " (required)"
		case spec.Default(role) != "":
			text += " (default " + spec.Default(role) + ")"
		}
		list = append(list, term{spec.Name, text})
	}
	return list
}
