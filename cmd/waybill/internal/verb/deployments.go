package verb

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

// Deployments is the noun that has further verbs, which follow a build.
const Deployments = "deployments"

const (
	deploymentsPath = projectsPath + "/{projectName}/deployments"
	deploymentPath  = "/v1/deployments/{deploymentName}"
)

// ProjectNames completes the name of a project.
func ProjectNames() Verb {
	return Verb{Args: []Arg{projectArg("PROJECT")}}
}

// DeploymentArg returns the argument that names a deployment.
func DeploymentArg() []Arg {
	return []Arg{deploymentArg("DEPLOYMENT", "deploymentName")}
}

// deploymentArg offers the deployments of each project for completion: there is no list of all.
func deploymentArg(word, to string) Arg {
	return Arg{Word: word, To: to, List: deploymentsPath, ID: "name", Each: projectsPath, EachTo: "projectName"}
}

// BuildArgs returns the arguments that name a build, which may be left out.
func BuildArgs() []Arg {
	return append(DeploymentArg(), Arg{Word: "[BUILD-ID]", To: "buildId", List: deploymentPath + "/builds", ID: "id", Optional: true})
}

func deploymentView() View {
	return View{None: "There are no deployments.", Columns: []Column{
		{Title: "NAME", Member: "name"},
		{Title: "BRANCH", Member: "branchName", Shrinks: true, Spare: true},
		{Title: "STATE", Member: "state"},
		{Title: "BUILD", Member: "build.number", Null: "-"},
		{Title: "TYPE", Member: "environmentType", Spare: true},
		{Title: "UPDATED", Member: "updatedOn", Form: Moment, Spare: true},
		{Title: "MESSAGE", Member: "message", Shrinks: true, Spare: true, Rare: true},
		{Title: "URL", Member: "url", Wide: true},
		{Title: "PROJECT", Member: "projectName", Wide: true},
		{Title: "BUILD ID", Member: "build.id", Wide: true},
		{Title: "NEWEST BUILD", Member: "lastBuild.number", Wide: true},
		{Title: "ITS STATUS", Member: "lastBuild.status", Wide: true},
		{Title: "ITS ID", Member: "lastBuild.id", Wide: true},
		{Title: "VARIABLES CHANGED", Member: "variablesChangedOn", Form: Moment, Wide: true},
		{Title: "CREATED", Member: "createdOn", Form: Moment, Wide: true},
	}}
}

func deployments() Noun {
	view := deploymentView()
	project := projectArg("PROJECT")
	project.Flag = "project"
	return Noun{
		Name: Deployments, Short: "List, show, redeploy, roll back and delete deployments",
		Long: "A deployment serves the routes of one branch of a project at a URL of its own.\n`waybill deploy` makes and changes it.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the deployments of a project, the oldest first", Example: "  waybill deployments list shop",
				Method: http.MethodGet, Path: deploymentsPath, Args: []Arg{project},
				Flags: concat([]Flag{
					{Name: "project", Usage: "the `name` of the project, if it is not given as an argument", In: InVerb},
					{Name: "branch", Usage: "only of this branch", In: InQuery, To: "branchName"},
					{Name: "search", Usage: "only those with this `text` in their name or branch", In: InQuery, To: "q"},
					{Name: "environment-type", Usage: "only of this type", In: InQuery, To: "environmentType", Choices: words([]domain.EnvironmentType{domain.Production, domain.Preview, domain.Development})},
				}, paging()),
				Show: view,
			},
			{
				Name: "get", Short: "Show a deployment", Example: "  waybill deployments get shop-main-4zq2mw7k5a",
				Method: http.MethodGet, Path: deploymentPath, Args: DeploymentArg(), Show: view,
			},
			{
				Name: "delete", Short: "Delete a deployment with its builds", Example: "  waybill deployments delete shop-try-this-c7xw3f2m6q",
				Method: http.MethodDelete, Path: deploymentPath, Args: DeploymentArg(),
				Done: "Deployment {deploymentName} is deleted. Its URL answers 404.", Confirm: "Delete deployment {deploymentName}? Its routes are no longer served.",
			},
			{
				Name: "builds", Short: "List the builds of a deployment", Example: "  waybill deployments builds shop-main-4zq2mw7k5a",
				Long:   "Lists the builds that are kept: the one that is served and the newest 20. Any of\nthem can be served again: waybill deployments redeploy DEPLOYMENT --build ID",
				Method: http.MethodGet, Path: deploymentPath + "/builds", Args: DeploymentArg(), Flags: paging(),
				Show: View{None: "There are no builds.", Columns: []Column{
					{Title: "NUMBER", Member: "number"},
					{Title: "ID", Member: "id", Form: Ident},
					{Title: "STATUS", Member: "status"},
					{Title: "CREATED", Member: "createdOn", Form: Moment},
					{Title: "BY", Member: "createdBy", Shrinks: true, Spare: true},
				}},
			},
			{
				Name: "calls", Short: "List the newest calls of a deployment", Example: "  waybill deployments calls shop-main-4zq2mw7k5a --limit 50",
				Long:   "Lists the newest calls of the last 24 hours. `waybill logs` shows more of each.",
				Method: http.MethodGet, Path: deploymentPath + "/recent-calls", Args: DeploymentArg(),
				Flags: []Flag{{Name: "limit", Usage: "at most so many; default 20", In: InQuery, Kind: Integer}},
				Show: View{None: "There were no calls in the last 24 hours.", Columns: []Column{
					{Title: "TIME", Member: "timeStamp", Form: Moment}, {Title: "METHOD", Member: "method"}, {Title: "ROUTE", Member: "routePath", Shrinks: true},
					{Title: "STATUS", Member: "statusCode"}, {Title: "CONSUMER", Member: "consumer", Shrinks: true, Spare: true},
				}},
			},
			{
				Name: "statistics", Short: "Count the calls of a deployment by consumer and status", Example: "  waybill deployments statistics shop-main-4zq2mw7k5a --filter last-hour",
				Long:   "Counts every call, also those that the log of requests does not keep.",
				Method: http.MethodGet, Path: deploymentPath + "/stats-by-status-code", Args: DeploymentArg(),
				Flags: []Flag{{Name: "filter", Usage: "how far to look back; required", In: InQuery, Required: true, Choices: []string{"last-hour", "last-24-hours", "last-7-days", "last-30-days", "last-3-months"}}},
				Show:  View{Tell: tellCalls},
			},
		},
	}
}

// tellCalls writes the number of calls of each consumer, by status.
func tellCalls(w io.Writer, thing map[string]any, _ int) {
	data, _ := thing["data"].(members)
	stats, _ := data["stats"].([]any)
	if len(stats) == 0 {
		fmt.Fprintln(w, "There were no calls in that time.")
		return
	}
	var rows [][]string
	for _, one := range stats {
		of, _ := one.(members)
		statuses, _ := of["callsByStatusCode"].([]any)
		for _, status := range statuses {
			counted, _ := status.(members)
			rows = append(rows, []string{terminal.Clean(fmt.Sprint(of["consumer"])), fmt.Sprint(counted["statusCode"]), fmt.Sprint(counted["calls"])})
		}
	}
	terminal.Table(w, []string{"CONSUMER", "STATUS", "CALLS"}, rows)
}

// RequestLogs returns the path of the log of a deployment's requests.
func RequestLogs(deployment string) string {
	return strings.Replace(deploymentPath, "{deploymentName}", url.PathEscape(deployment), 1) + "/request-logs"
}

// Builds returns the path of the list of a deployment's builds.
func Builds(deployment string) string {
	return strings.Replace(deploymentPath, "{deploymentName}", url.PathEscape(deployment), 1) + "/builds"
}
