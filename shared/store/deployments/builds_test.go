package deployments_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func buildTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"redeploys the active archive":       testRedeploy,
		"tells what became of a build":       testBuildStatus,
		"keeps the newest and the active":    testKeptBuilds,
		"lists builds by number":             testListBuilds,
		"takes the production branch of now": testProductionBranch,
	}
}

func testRedeploy(t *testing.T, b *bench) {
	b.project(t, account, project)
	first := b.upload(t, "main")
	redeploy := func(id string) domain.Build {
		t.Helper()
		build, err := b.Redeploy(t.Context(), account, first.Deployment, id)
		if err != nil {
			t.Fatal(err)
		}
		return build
	}
	second := b.upload(t, "main")
	if again := redeploy(""); again.SourceID != second.SourceID {
		t.Errorf("while nothing is active, %s is built and not the newest", again.SourceID)
	}
	b.end(t, first, domain.BuildSuccess)
	again := redeploy("")
	if again.SourceID != first.SourceID || again.Number != 4 || again.StatusID == first.StatusID || again.StatusID == again.ID || again.Status != domain.BuildQueued {
		t.Errorf("%+v", again)
	}
	if named := redeploy(second.ID); named.SourceID != second.SourceID || named.Number != 5 {
		t.Errorf("%+v", named)
	}
	if ofRedeployment := redeploy(again.ID); ofRedeployment.SourceID != first.SourceID {
		t.Errorf("%+v", ofRedeployment)
	}
	status, err := b.GetStatus(t.Context(), account, project, again.StatusID)
	if err != nil || status.Build == nil || status.Build.ID != again.ID {
		t.Errorf("%+v, %v", status, err)
	}
	for _, id := range []string{"0190c0f0-0000-7000-8000-000000000000", "nonsense", "\x00"} {
		_, err := b.Redeploy(t.Context(), account, first.Deployment, id)
		storetest.WantNotFound(t, "build "+id, err)
	}
	_, err = b.Redeploy(t.Context(), account, "none", "")
	storetest.WantNotFound(t, "no deployment", err)
	_, err = b.Redeploy(t.Context(), account, "\x00", "")
	storetest.WantNotFound(t, "no name", err)
}

func testBuildStatus(t *testing.T, b *bench) {
	b.project(t, account, project)
	build := b.upload(t, "main")
	b.end(t, build, domain.BuildError)
	b.exec(t, "UPDATE gateway_builds SET faults = ? WHERE id = ?", `[{"file":"a.oas.json","operation":"op","pointer":"/x","detail":"is wrong"}]`, build.ID)
	status, err := b.GetStatus(t.Context(), account, project, build.StatusID)
	if err != nil {
		t.Fatal(err)
	}
	want := build
	want.Status, want.Routes, want.FinishedOn = domain.BuildError, 3, noon
	want.Steps = []domain.BuildStep{{Name: "unpack", Status: domain.BuildSuccess, StartedOn: noon, FinishedOn: noon.Add(time.Second)}}
	want.Faults = []domain.BuildFault{{File: "a.oas.json", Operation: "op", Pointer: "/x", Detail: "is wrong"}}
	if diff := cmp.Diff(&want, status.Build); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lines, err := b.BuildLog(t.Context(), account, build.Deployment, build.ID)
	if diff := cmp.Diff([]domain.BuildLine{{Step: "unpack", Timestamp: noon, Level: "info", Message: "2 files"}}, lines); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, id := range []string{"0190c0f0-0000-7000-8000-000000000000", "\x00"} {
		_, err := b.BuildLog(t.Context(), account, build.Deployment, id)
		storetest.WantNotFound(t, "log", err)
	}
}

func (b *bench) numbers(t *testing.T, deployment string) []int64 {
	t.Helper()
	list, total, err := b.ListBuilds(t.Context(), account, deployment, all())
	if err != nil || total != len(list) {
		t.Fatalf("%d of %d, %v", len(list), total, err)
	}
	numbers := make([]int64, len(list))
	for i, build := range list {
		numbers[i] = build.Number
	}
	return numbers
}

// testKeptBuilds makes 30 builds, of which the second is active, the fourth is still open, and
// the 29th is made of the archive of the third.
func testKeptBuilds(t *testing.T, b *bench) {
	b.project(t, account, project)
	var third domain.Build
	for n := int64(1); n <= 28; n++ {
		build := b.upload(t, "main")
		switch n {
		case 3:
			third = build
		case 22:
			// Its archive has to outlive its build.
			if _, err := b.Redeploy(t.Context(), account, build.Deployment, third.ID); err != nil {
				t.Fatal(err)
			}
		}
		switch n {
		case 2:
			b.end(t, build, domain.BuildSuccess)
		case 3:
			b.exec(t, "UPDATE gateway_builds SET status = 'SUCCESS' WHERE id = ?", build.ID)
		case 4:
		default:
			b.end(t, build, domain.BuildError)
		}
	}
	last := b.upload(t, "main")
	want := []int64{2, 4}
	for n := int64(11); n <= 30; n++ {
		want = append(want, n)
	}
	if got := b.numbers(t, last.Deployment); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_sources WHERE id = ?", third.SourceID); n != 1 {
		t.Error("the archive of a kept build is gone")
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_sources"); n != 22 { // the failed ones without their archives
		t.Errorf("%d archives, want those of the kept builds", n)
	}
	_, err := b.GetStatus(t.Context(), account, project, third.StatusID)
	if err == nil {
		t.Log("the status of a build that is gone tells of its source")
	}
}

func testListBuilds(t *testing.T, b *bench) {
	b.project(t, account, project)
	var last domain.Build
	for range 5 {
		last = b.upload(t, "main")
	}
	b.upload(t, "other")
	list, total, err := b.ListBuilds(t.Context(), account, last.Deployment, store.Page{Limit: 2, Offset: 3})
	if err != nil || total != 5 || len(list) != 2 || list[0].Number != 4 || list[1].ID != last.ID {
		t.Errorf("%d of %d, %v", len(list), total, err)
	}
	_, _, err = b.ListBuilds(t.Context(), account, "none", all())
	storetest.WantNotFound(t, "no deployment", err)
	_, _, err = b.ListBuilds(t.Context(), account, "\x00", all())
	storetest.WantNotFound(t, "no name", err)
}

// The production branch counts from each branch's next build.
func testProductionBranch(t *testing.T, b *bench) {
	b.project(t, account, project)
	first := b.upload(t, "main")
	b.end(t, first, domain.BuildSuccess)
	b.exec(t, "UPDATE projects SET production_branch = 'live'")
	again, err := b.Redeploy(t.Context(), account, first.Deployment, "")
	if err != nil || again.EnvironmentType != domain.Preview {
		t.Errorf("%+v, %v", again, err)
	}
	listed, err := b.GetDeployment(t.Context(), account, first.Deployment)
	if err != nil || listed.EnvironmentType != domain.Production {
		t.Errorf("before the build is active: %+v, %v", listed, err)
	}
	if live := b.upload(t, "live"); live.EnvironmentType != domain.Production {
		t.Errorf("%+v", live)
	}
}
