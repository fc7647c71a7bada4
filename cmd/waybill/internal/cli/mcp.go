package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/inspect"
	"waybill.dev/shared/domain"
)

// mcpPath is the path of Waybill's own MCP server.
const mcpPath = "/mcp"

func (a *app) mcp() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Inspect MCP servers, which AI clients use",
		Example: "  waybill mcp inspect",
		RunE:    subcommands,
	}
	cmd.AddCommand(a.inspect())
	return cmd
}

func (a *app) inspect() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "inspect [URL]",
		Short: "List the tools, prompts and resources of an MCP server",
		Long: "Lists the tools, prompts and resources that an MCP server shows to the key's\n" +
			"owner. Without a URL it asks the installation's own server. A stored key is sent\n" +
			"only to its own installation. For another server, give a key with --key.",
		Example: "  waybill mcp inspect\n  waybill mcp inspect https://shipments.example.com/mcp --key wbk_...\n" +
			"  waybill mcp inspect -o json",
		Args: cobra.MaximumNArgs(1),
	}
	where := addTarget(cmd)
	form := addOutput(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "how long to wait for the answers")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		endpoint, key, err := where.mcpServer(args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		report, err := inspect.Server(ctx, endpoint, key, a.version)
		if err != nil {
			return err
		}
		if *form == asJSON {
			return terminal.JSON(a.stdout, report)
		}
		a.showServer(report)
		return nil
	})
	return cmd
}

// mcpServer returns the MCP server of the command line, with its key: for the installation's own
// server the key of the installation, for another server the key of --key on this command line.
func (t *target) mcpServer(args []string) (endpoint string, key domain.Secret, err error) {
	if len(args) == 0 {
		to, err := t.access()
		return strings.TrimSuffix(to.URL, "/") + mcpPath + "?tools=all", to.Key, err
	}
	asked, err := url.Parse(client.WithScheme(args[0]))
	if err != nil || asked.Host == "" || asked.Scheme != "http" && asked.Scheme != "https" {
		return "", "", usagef("%q is not a URL such as %s", terminal.Clean(args[0]), defaultServer+mcpPath)
	}
	if t.flags.Changed("key") {
		return asked.String(), domain.Secret(t.key), nil
	}
	to, err := t.access()
	if err != nil {
		return asked.String(), "", nil //nolint:nilerr // a server may ask for no key
	}
	own, err := url.Parse(to.URL)
	if err == nil && asked.Scheme == own.Scheme && asked.Host == own.Host {
		key = to.Key
	}
	return asked.String(), key, nil
}

func (a *app) showServer(r *inspect.Report) {
	style := a.style()
	fmt.Fprintf(a.stdout, "%s %s, protocol %s\n", style.Bold(terminal.Clean(r.Name)), terminal.Clean(r.Version), terminal.Clean(r.ProtocolVersion))
	var rows [][]string
	for _, t := range r.Tools {
		rows = append(rows, []string{t.Name, strings.Join(t.Hints(), ", "), t.Description})
	}
	a.section("Tools", []string{"TOOL", "IT", "DESCRIPTION"}, rows)
	rows = nil
	for _, p := range r.Prompts {
		names := make([]string, len(p.Arguments))
		for i, argument := range p.Arguments {
			names[i] = argument.Name
		}
		rows = append(rows, []string{p.Name, strings.Join(names, ", "), p.Description})
	}
	a.section("Prompts", []string{"PROMPT", "ARGUMENTS", "DESCRIPTION"}, rows)
	rows = nil
	for _, list := range [][]inspect.Resource{r.Resources, r.Templates} {
		for _, resource := range list {
			rows = append(rows, []string{resource.URI, resource.MIMEType, resource.Description})
		}
	}
	a.section("Resources", []string{"RESOURCE", "TYPE", "DESCRIPTION"}, rows)
}

// section prints a table under a title; on a terminal its last column is cut to fit.
func (a *app) section(title string, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	used := make([]int, len(header)-1)
	for _, row := range rows {
		for i := range row {
			row[i] = terminal.Clean(strings.Join(strings.Fields(row[i]), " "))
			if i < len(used) {
				used[i] = max(used[i], len(header[i]), len([]rune(row[i])))
			}
		}
	}
	room := helpWidth(a.stdout)
	for _, column := range used {
		room -= column + 2
	}
	if terminal.IsTerminal(a.stdout) {
		for _, row := range rows {
			end := len(row) - 1
			row[end] = shorten(row[end], max(room, 20))
		}
	}
	fmt.Fprintf(a.stdout, "\n%s\n", a.style().Bold(title))
	terminal.Table(a.stdout, header, rows)
}

func shorten(text string, columns int) string {
	letters := []rune(text)
	if len(letters) <= columns {
		return text
	}
	return strings.TrimRight(string(letters[:columns-1]), " ,;:") + "…"
}
