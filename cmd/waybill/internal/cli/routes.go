package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/egress"
)

func (a *app) routes() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "routes",
		Short:   "Check and list the gateway's routes",
		Example: "  waybill routes check --routes ./config",
		RunE:    subcommands,
	}
	cmd.AddCommand(a.checkRoutes(), a.listRoutes())
	return cmd
}

// routeFiles is the folder of route files that a command reads.
type routeFiles struct{ dir string }

const routesFlag = "routes"

func addRoutes(cmd *cobra.Command) *routeFiles {
	f := &routeFiles{}
	cmd.Flags().StringVar(&f.dir, routesFlag, "./config", "directory of the route definition files")
	setVariable(cmd.Flags(), routesFlag, settings.RoutesDir)
	_ = cmd.MarkFlagDirname(routesFlag)
	return f
}

// read reads the folder as a server that uses it would. Only the default folder may be missing;
// then it returns the built-in routes.
func (f *routeFiles) read(cmd *cobra.Command) ([]gateway.RouteInfo, []gateway.RouteFault, error) {
	given := cmd.Flags().Changed(routesFlag) || os.Getenv(settings.RoutesDir) != ""
	return apipart.CheckRoutes(gateway.RoutesOptions{
		Dir: f.dir, Fallback: !given, Variables: apipart.Environment(),
		Egress: &egress.Policy{}, // the targets of callbacks do not matter here
	})
}

func (a *app) checkRoutes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List everything that is wrong with the route files",
		Long: "Reads the route files as a server does, but starts nothing. Prints everything\n" +
			"that is wrong, one fault a line. Ends with exit code 1 if there is a fault.\n" +
			"Without faults, notes say what is not checked and which tools have a name that\n" +
			"was made for them.\n" +
			"Set the variables that the files use as $env(NAME), as for the server.\n\n" +
			"With --deployment the files are checked as a build of them would be: it has the\n" +
			"variables that --var names and no others. Where back ends may be say\n" +
			settings.GatewayEgressAllow + " and " + settings.EgressHTTP + ", as for a gateway;\n" +
			"beside a running `waybill dev`, its defaults hold.",
		Example: "  waybill routes check\n  waybill routes check --routes ./config -o json\n" +
			"  waybill routes check --deployment --routes ./shop --var GREETING=Hello",
		Args: cobra.NoArgs,
	}
	files := addRoutes(cmd)
	deployment := addDeploymentCheck(cmd)
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		read := files.read
		if deployment.on || len(deployment.variables) > 0 {
			read = func(cmd *cobra.Command) ([]gateway.RouteInfo, []gateway.RouteFault, error) {
				return deployment.read(cmd, files.dir)
			}
		}
		routes, faults, err := read(cmd)
		if err != nil {
			return err
		}
		if err := a.printCheck(routes, faults, *form); err != nil {
			return err
		}
		if deployment.on && *form == asTable {
			a.note("%s", terminal.Clean(deployment.checkedWith()))
		}
		if len(faults) > 0 {
			return errSilent
		}
		return nil
	})
	return cmd
}

type reportLine struct {
	File      string `json:"file"`
	Operation string `json:"operation,omitempty"`
	Pointer   string `json:"pointer,omitempty"`
	Message   string `json:"message"`
}

// notesOf returns the notes of routes, which are not faults.
func notesOf(routes []gateway.RouteInfo) []reportLine {
	lines := []reportLine{}
	for _, r := range routes {
		for _, note := range r.Notes {
			lines = append(lines, reportLine{File: r.File, Operation: r.Operation, Message: note})
		}
	}
	return lines
}

func (a *app) printCheck(routes []gateway.RouteInfo, faults []gateway.RouteFault, form output) error {
	if form == asJSON {
		lines := []reportLine{}
		for _, f := range faults {
			lines = append(lines, reportLine{f.File, f.Operation, f.Pointer, f.Message})
		}
		return terminal.JSON(a.stdout, struct {
			Routes int          `json:"routes"`
			Faults []reportLine `json:"faults"`
			Notes  []reportLine `json:"notes"`
		}{len(routes), lines, notesOf(routes)})
	}
	for _, n := range notesOf(routes) {
		fmt.Fprintln(a.stdout, terminal.Clean("note: "+gateway.RouteFault{File: n.File, Operation: n.Operation, Message: n.Message}.Error()))
	}
	for _, f := range faults {
		fmt.Fprintln(a.stdout, terminal.Clean(f.Error()))
	}
	if len(faults) > 0 {
		a.note("%s.", count(len(faults), "fault"))
		return nil
	}
	fmt.Fprintf(a.stdout, "%s, no faults.\n", count(len(routes), "route"))
	return nil
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (a *app) listRoutes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the routes in the order of matching",
		Long: "Lists the routes of the route files in the order of matching. Shows the handler\n" +
			"of each, and what it is to AI clients.",
		Example: "  waybill routes list\n  waybill routes list -o json",
		Args:    cobra.NoArgs,
	}
	files := addRoutes(cmd)
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		routes, faults, err := files.read(cmd)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return fmt.Errorf("the route files have %s; `waybill routes check` lists them", count(len(faults), "fault"))
		}
		return a.printRoutes(routes, *form)
	})
	return cmd
}

type routeLine struct {
	File      string   `json:"file"`
	Operation string   `json:"operation"`
	Method    string   `json:"method"`
	Path      string   `json:"path"`
	Handler   string   `json:"handler"`
	Inbound   []string `json:"inbound"`
	Outbound  []string `json:"outbound"`
	MCP       string   `json:"mcp,omitempty"`
}

func (a *app) printRoutes(routes []gateway.RouteInfo, form output) error {
	lines := []routeLine{}
	var rows [][]string
	for _, r := range routes {
		line := routeLine{r.File, r.Operation, r.Method, r.Path, r.Handler, append([]string{}, r.Inbound...), append([]string{}, r.Outbound...), r.MCP}
		lines = append(lines, line)
		policies := strings.Join(append(append([]string{}, r.Inbound...), r.Outbound...), ", ")
		row := []string{r.Method, r.Path, r.Operation, r.Handler, r.MCP, policies, r.File}
		for i := range row {
			row[i] = terminal.Clean(row[i])
		}
		rows = append(rows, row)
	}
	if form == asJSON {
		return terminal.JSON(a.stdout, lines)
	}
	if len(rows) == 0 {
		a.note("There are no routes.")
		return nil
	}
	terminal.Table(a.stdout, []string{"METHOD", "PATH", "OPERATION", "HANDLER", "MCP", "POLICIES", "FILE"}, rows)
	return nil
}
