package environments

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/families/variables"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\u0007"
	at := new("2026-11-18T12:30:00.000Z")
	all := links{true, true, true, true}
	one := project{accounts.Project{Name: hostile, ProductionBranch: hostile}}
	list := []environment{
		{deployments.Environment{Name: hostile, CreatedOn: at, ProjectName: hostile, BranchName: hostile, EnvironmentType: "production", DeploymentName: "shop-main", URLs: []string{"http://" + hostile, "b"}, BucketName: new(hostile)}},
		{deployments.Environment{Name: local, BranchName: local}},
	}
	lacks := &console.Problem{Status: 403, Scope: "gateway:read"}
	empty, typed, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"name": {"<script>"}, "value": {"<script>"}}), console.NewForm(url.Values{"value": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/value", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	plain, secret := variables.Variable{Name: hostile, Value: hostile, UpdatedOn: at}, variables.Variable{Name: "SECRET", IsSecret: true, UpdatedOn: at}
	here, previews := place{hostile, "feature/" + hostile}, place{hostile, "~preview"}
	return map[string][]any{
		"list.html": {
			listView{Form: empty}, listView{Links: all, Form: empty, Groups: []group{{one, list, 12, nil}, {one, nil, 0, lacks}, {one, nil, 0, nil}}},
			listView{Form: empty, NoProjects: lacks}, listView{Form: empty, NoList: &console.Problem{Status: 404, NoOperation: true}},
		},
		"project.html": {
			projectView{Form: empty, Branch: empty}, projectView{all, one, typed, group{one, list, 120, nil}, true, empty},
			projectView{all, one, wrong, group{Problem: lacks}, true, empty},
		},
		"branch.html": {
			branchView{Form: empty}, branchView{here, all, []variables.Variable{plain, secret}, []variables.Variable{plain, secret}, typed, true, true, "preview", "n", at, "waybill variables create"},
			branchView{Place: previews, Form: wrong, May: true, Variables: []variables.Variable{plain}}, branchView{Place: here, Form: empty, Variables: []variables.Variable{plain}},
		},
		"variable.html": {variableView{Form: empty}, variableView{here, plain, typed}, variableView{here, secret, wrong}},
	}
}
