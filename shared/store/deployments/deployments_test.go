package deployments_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

func deploymentTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"lists deployments, oldest first":      testList,
		"tells what is active and what is new": testListedBuilds,
		"keeps accounts' deployments apart":    testAccounts,
		"deletes a deployment with its builds": testDelete,
		"lists a thousand of ten thousand":     testLargeList,
	}
}

func branches(list []deployments.DeploymentWithBuilds) []string {
	names := make([]string, 0, len(list))
	for _, d := range list {
		names = append(names, d.Branch)
	}
	return names
}

func testList(t *testing.T, b *bench) {
	b.project(t, account, project)
	b.project(t, account, "other")
	for _, branch := range []string{"main", "z", "a", domain.WorkingCopy} {
		b.upload(t, branch)
		b.Clock.Advance(time.Second)
	}
	if _, err := b.Upload(t.Context(), deployments.Target{Account: account, Project: "other", Branch: "main"}, []byte("archive"), domain.ArchiveZip); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		filter deployments.Filter
		want   []string
		total  int
	}{
		{deployments.Filter{Project: project, Page: all()}, []string{"main", "z", "a", "working-copy"}, 4},
		{deployments.Filter{Project: project, Page: store.Page{Limit: 2, Offset: 1}}, []string{"z", "a"}, 4},
		{deployments.Filter{Project: project, Page: store.Page{Limit: 2, Offset: 9}}, []string{}, 4},
		{deployments.Filter{Project: project, Branch: "a", Page: all()}, []string{"a"}, 1},
		{deployments.Filter{Project: project, Branch: "\x00", Page: all()}, []string{}, 0},
		{deployments.Filter{Project: project, EnvironmentType: domain.Preview, Page: all()}, []string{"z", "a"}, 2},
		{deployments.Filter{Project: project, Branch: "a", EnvironmentType: domain.Production, Page: all()}, []string{}, 0},
		{deployments.Filter{Page: all()}, []string{"main", "z", "a", "working-copy", "main"}, 5},
	} {
		row.filter.Account = account
		list, total, err := b.ListDeployments(t.Context(), row.filter)
		if got := branches(list); err != nil || total != row.total || !slices.Equal(got, row.want) {
			t.Errorf("%+v: %v of %d, %v; want %v of %d", row.filter, got, total, err, row.want, row.total)
		}
	}
	for _, f := range []deployments.Filter{{Account: account, Project: "none", Page: all()}, {Account: "second", Project: project, Page: all()}, {Account: account, Project: "\x00"}} {
		_, _, err := b.ListDeployments(t.Context(), f)
		storetest.WantNotFound(t, "a project that is not there", err)
	}
}

func testListedBuilds(t *testing.T, b *bench) {
	b.project(t, account, project)
	first := b.upload(t, "main")
	b.end(t, first, domain.BuildSuccess)
	second := b.upload(t, "main")
	b.end(t, second, domain.BuildError)
	b.upload(t, "other")
	list, _, err := b.ListDeployments(t.Context(), deployments.Filter{Account: account, Project: project, Page: all()})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d, %v", len(list), err)
	}
	main, other := list[0], list[1]
	if main.State != domain.DeploymentStarted || main.Message != "It is broken." || main.ActiveBuild != first.ID ||
		main.Build == nil || main.Build.ID != first.ID || main.Build.Routes != 3 || main.LastBuild == nil || main.LastBuild.ID != second.ID || main.LastBuild.Status != domain.BuildError {
		t.Errorf("%+v, %+v, %+v", main.Deployment, main.Build, main.LastBuild)
	}
	if other.Build != nil || other.LastBuild == nil || other.LastBuild.Number != 1 || other.LastBuild.Deployment != other.Name {
		t.Errorf("%+v, %+v", other.Build, other.LastBuild)
	}
}

func testAccounts(t *testing.T, b *bench) {
	b.exec(t, "INSERT INTO accounts (id, name, created_at) VALUES ('acct_2', 'second', ?)", b.DB.Moment(noon))
	b.project(t, account, project)
	b.project(t, "second", project)
	ours := b.upload(t, "main")
	theirs, err := b.Upload(t.Context(), deployments.Target{Account: "second", Project: project, Branch: "main"}, []byte("archive"), domain.ArchiveZip)
	if err != nil || theirs.Deployment == ours.Deployment || theirs.Number != 1 {
		t.Fatalf("%+v, %v", theirs, err)
	}
	_, err = b.GetDeployment(t.Context(), account, theirs.Deployment)
	storetest.WantNotFound(t, "get", err)
	storetest.WantNotFound(t, "delete", b.DeleteDeployment(t.Context(), account, theirs.Deployment))
	_, err = b.Redeploy(t.Context(), account, theirs.Deployment, "")
	storetest.WantNotFound(t, "redeploy", err)
	_, err = b.Redeploy(t.Context(), account, ours.Deployment, theirs.ID)
	storetest.WantNotFound(t, "roll back to another's build", err)
	_, _, err = b.ListBuilds(t.Context(), account, theirs.Deployment, all())
	storetest.WantNotFound(t, "builds", err)
	_, err = b.BuildLog(t.Context(), account, theirs.Deployment, theirs.ID)
	storetest.WantNotFound(t, "log", err)
	_, err = b.BuildLog(t.Context(), account, ours.Deployment, theirs.ID)
	storetest.WantNotFound(t, "log of another's build", err)
	_, err = b.GetStatus(t.Context(), account, project, theirs.StatusID)
	storetest.WantNotFound(t, "status", err)
	if list, total, err := b.ListDeployments(t.Context(), deployments.Filter{Account: "second", Page: all()}); err != nil || total != 1 || list[0].Name != theirs.Deployment {
		t.Errorf("%v, %v", branches(list), err)
	}
}

func testDelete(t *testing.T, b *bench) {
	b.project(t, account, project)
	first := b.upload(t, "main")
	b.end(t, first, domain.BuildSuccess)
	second := b.upload(t, "main")
	before := b.version(t)
	if err := b.DeleteDeployment(t.Context(), account, first.Deployment); err != nil {
		t.Fatal(err)
	}
	if b.version(t) != before+1 {
		t.Errorf("version %d, before %d", b.version(t), before)
	}
	if n := b.count(t, "SELECT (SELECT COUNT(*) FROM gateway_sources) + (SELECT COUNT(*) FROM gateway_builds)"); n != 0 {
		t.Errorf("%d sources and builds are left", n)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_deployments WHERE removed_at IS NOT NULL AND active_build = '' AND version = ?", before+1); n != 1 {
		t.Error("gateways do not learn of it")
	}
	_, err := b.GetDeployment(t.Context(), account, first.Deployment)
	storetest.WantNotFound(t, "get", err)
	storetest.WantNotFound(t, "delete again", b.DeleteDeployment(t.Context(), account, first.Deployment))
	_, err = b.Redeploy(t.Context(), account, first.Deployment, second.ID)
	storetest.WantNotFound(t, "redeploy", err)
	if list, total, err := b.ListDeployments(t.Context(), deployments.Filter{Account: account, Project: project, Page: all()}); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("%v of %d, %v", branches(list), total, err)
	}

	b.Clock.Advance(time.Hour)
	again := b.upload(t, "main")
	listed, err := b.GetDeployment(t.Context(), account, first.Deployment)
	if err != nil || again.Number != 3 || listed.State != domain.DeploymentBuilding || listed.ActiveBuild != "" || listed.Version != before+2 || !listed.CreatedOn.Equal(noon.Add(time.Hour)) {
		t.Errorf("made again: %+v, %v", listed.Deployment, err)
	}

	if err := b.DeleteDeployment(t.Context(), account, first.Deployment); err != nil {
		t.Fatal(err)
	}
	rows := func() int { return b.count(t, "SELECT COUNT(*) FROM gateway_deployments") }
	b.Clock.Advance(23 * time.Hour)
	if err := b.Purge(t.Context(), b.Clock.Now()); err != nil || rows() != 1 {
		t.Errorf("%d rows before a day is over, %v", rows(), err)
	}
	b.Clock.Advance(2 * time.Hour)
	if err := b.Purge(t.Context(), b.Clock.Now()); err != nil || rows() != 0 {
		t.Errorf("%d rows after a day, %v", rows(), err)
	}
}

// fillBuilds gives each of many deployments an active build and a log that is not read.
func (b *bench) fillBuilds(t testing.TB, project string) {
	t.Helper()
	b.exec(t, `INSERT INTO gateway_builds (id, status_id, deployment, account, project, branch, number, source_id, environment_type, status,
		created_at, created_by, created_key, request_id, claims, owner, routes, steps, faults, log)
		SELECT active_build, 's-' || active_build, name, account, project, branch, 1, 'none', 'preview', 'SUCCESS', created_at, '', '', '', 1, '', 3, '[]', '[]', ?
		FROM gateway_deployments WHERE project = ?`, fmt.Sprintf("[%02000d]", 0), project)
}

// testLargeList is about what a page has; BenchmarkListDeployments about how long it takes.
func testLargeList(t *testing.T, b *bench) {
	b.project(t, account, project)
	b.fill(t, project, domain.MaxDeployments)
	b.fillBuilds(t, project)
	list, total, err := b.ListDeployments(t.Context(), deployments.Filter{Account: account, Project: project, Page: store.Page{Limit: 1000, Offset: 5000}})
	if err != nil || total != domain.MaxDeployments || len(list) != 1000 || list[0].Branch != "b5001" || list[999].Build == nil || list[999].LastBuild == nil {
		t.Fatalf("%d of %d, %v", len(list), total, err)
	}
}
