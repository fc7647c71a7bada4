package verb

import "net/http"

const environmentsPath = "/v1/environments"

func environments() Noun {
	view := View{None: "The project has no environments: nothing of it is deployed.", Columns: append([]Column{
		{Title: "NAME", Member: "name"}, {Title: "BRANCH", Member: "branchName"}, {Title: "TYPE", Member: "environmentType"},
		{Title: "URLS", Member: "urls", Form: Joined}, {Title: "BUCKET", Member: "bucketName", Wide: true},
		{Title: "PROJECT", Member: "projectName", Wide: true}, {Title: "ACCOUNT", Member: "accountName", Wide: true},
	}, made()[0])}
	return Noun{
		Name: "environments", Short: "List and show the environments of a project",
		Long: "An environment is a branch of a project as it runs. It has the name of its\ndeployment.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the environments of a project", Example: "  waybill environments list parcels",
				Method: http.MethodGet, Path: environmentsPath + "?accountName={account}&projectName={projectName}",
				Args: []Arg{projectArg("PROJECT")}, Flags: paging(), Show: view,
			},
			{
				Name: "get", Short: "Show an environment", Example: "  waybill environments get parcels-main-a2b3c4d5e6",
				Method: http.MethodGet, Path: environmentsPath + "/{environmentName}", Args: []Arg{deploymentArg("NAME", "environmentName")}, Show: view,
			},
		},
	}
}
