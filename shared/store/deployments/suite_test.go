package deployments_test

import (
	"os"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what callers rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{
		"uploads":     uploadTests(),
		"deployments": deploymentTests(),
		"builds":      buildTests(),
	})
}

type bench struct {
	*storetest.Bench
	*deployments.Deployments

	audit *auditlog.Log
}

func newBench(b *storetest.Bench) *bench {
	return &bench{b, deployments.New(b.DB), auditlog.New(b.DB)}
}

const account, project = domain.DefaultAccount, "shop"

// noon is when the suite's clock starts.
var noon = storetest.Noon()

// exec changes the database beneath the family.
func (b *bench) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if err := b.DB.Writing(t.Context()).Exec(statement, args...).Error; err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// project makes a project, as the api does.
func (b *bench) project(t testing.TB, account, name string) {
	t.Helper()
	b.exec(t, "INSERT INTO projects (id, account, name, created_at, production_branch) VALUES (?, ?, ?, ?, 'main')",
		"prj_"+account+name, account, name, b.DB.Moment(noon))
}

// upload uploads an archive for a branch of the project.
func (b *bench) upload(t *testing.T, branch string) domain.Build {
	t.Helper()
	build, err := b.Upload(t.Context(), target(branch), []byte("PK "+branch), domain.ArchiveZip)
	if err != nil {
		t.Fatalf("upload: %v", err)
	}
	return build
}

func target(branch string) deployments.Target {
	return deployments.Target{Account: account, Project: project, Branch: branch}
}

// end ends a build as a gateway does.
func (b *bench) end(t *testing.T, build domain.Build, status domain.BuildStatus) {
	t.Helper()
	now := b.DB.Moment(b.DB.Now())
	b.exec(t, "UPDATE gateway_builds SET status = ?, finished_at = ?, routes = 3, log = ?, steps = ? WHERE id = ?", string(status), now,
		`[{"step":"unpack","timestamp":"2025-06-10T12:00:00Z","level":"info","message":"2 files"}]`,
		`[{"name":"unpack","status":"SUCCESS","startedOn":"2025-06-10T12:00:00Z","finishedOn":"2025-06-10T12:00:01Z"}]`, build.ID)
	if status == domain.BuildSuccess {
		b.exec(t, "UPDATE gateway_deployments SET state = 'STARTED', active_build = ?, active_number = ? WHERE name = ?", build.ID, build.Number, build.Deployment)
	} else {
		b.exec(t, "UPDATE gateway_deployments SET state = CASE WHEN active_build = '' THEN 'ERRORED' ELSE state END, message = 'It is broken.' WHERE name = ?", build.Deployment)
	}
}

func (b *bench) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := b.DB.Reading(t.Context()).Raw(query, args...).Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bench) version(t *testing.T) int64 {
	t.Helper()
	v, err := b.GatewayVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func all() store.Page { return store.Page{Limit: 1000} }
