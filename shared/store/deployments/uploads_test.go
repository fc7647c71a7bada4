package deployments_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

func uploadTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"makes a deployment and a build of an archive": testUpload,
		"takes an archive for a source once":           testPutArchive,
		"takes one of many archives at once":           testPutArchiveOnce,
		"notes whose upload it was":                    testUploadAudit,
		"refuses what has no project":                  testUploadNowhere,
		"keeps a name for what has it":                 testNameTaken,
		"has as many deployments as it may":            testMaxDeployments,
		"has as many open builds as it may":            testMaxOpenBuilds,
		"numbers uploads that race":                    testUploadsRace,
		"keeps as many bytes of archives as it may":    testSourceBytes,
		"lets go of all archives that failed":          testManyFailed,
		"bounds the variables of an account":           testAccountVariables,
		"purges what was never uploaded":               testPurgeSources,
	}
}

func testUpload(t *testing.T, b *bench) {
	b.project(t, account, project)
	before := b.version(t)
	build := b.upload(t, "main")
	name := domain.DeploymentName(account, project, "main")
	want := domain.Build{
		ID: build.ID, StatusID: build.SourceID, SourceID: build.SourceID, Deployment: name, Account: account, Project: project, Branch: "main",
		Number: 1, EnvironmentType: domain.Production, Status: domain.BuildQueued, CreatedOn: noon, Steps: []domain.BuildStep{}, Faults: []domain.BuildFault{},
	}
	if diff := cmp.Diff(want, build); diff != "" || build.ID == build.StatusID {
		t.Errorf("build (-want +got):\n%s", diff)
	}
	listed, err := b.GetDeployment(t.Context(), account, name)
	if err != nil {
		t.Fatal(err)
	}
	after := b.version(t)
	wantDeployment := domain.Deployment{
		Name: name, Account: account, Project: project, Branch: "main", EnvironmentType: domain.Production,
		State: domain.DeploymentBuilding, CreatedOn: noon, UpdatedOn: noon, Version: after,
	}
	if diff := cmp.Diff(wantDeployment, listed.Deployment); diff != "" || after != before+1 {
		t.Errorf("version %d after %d (-want +got):\n%s", after, before, diff)
	}
	want.Steps, want.Faults = nil, nil
	if diff := cmp.Diff(&want, listed.LastBuild); diff != "" || listed.Build != nil {
		t.Errorf("active %v, newest (-want +got):\n%s", listed.Build, diff)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_sources WHERE archive = ? AND format = 'zip' AND size = 7", []byte("PK main")); n != 1 {
		t.Errorf("%d archives", n)
	}

	// What it serves does not change by another upload, until that is active.
	b.end(t, build, domain.BuildSuccess)
	second := b.upload(t, "main")
	if b.version(t) != after || second.Number != 2 || second.ID <= build.ID {
		t.Errorf("version %d, second %+v", b.version(t), second)
	}
	if preview := b.upload(t, "feature/x"); preview.EnvironmentType != domain.Preview || preview.Number != 1 {
		t.Errorf("%+v", preview)
	}
	if copied := b.upload(t, domain.WorkingCopy); copied.EnvironmentType != domain.Development {
		t.Errorf("%+v", copied)
	}
	// What serves nothing is found again while a build is under way.
	broken := b.upload(t, "broken")
	b.end(t, broken, domain.BuildError)
	b.Clock.Advance(time.Minute)
	at := b.version(t)
	b.upload(t, "broken")
	listed, err = b.GetDeployment(t.Context(), account, broken.Deployment)
	if err != nil || listed.State != domain.DeploymentBuilding || listed.Message != "" || listed.Version != at+1 || !listed.UpdatedOn.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v, %v", listed.Deployment, err)
	}
}

func testPutArchive(t *testing.T, b *bench) {
	b.project(t, account, project)
	source, err := b.CreateSource(t.Context(), target("main"))
	if err != nil {
		t.Fatal(err)
	}
	want := domain.DeploymentSource{
		ID: source.ID, Account: account, Project: project, Branch: "main", Deployment: domain.DeploymentName(account, project, "main"), CreatedOn: noon,
	}
	if diff := cmp.Diff(want, source); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = b.GetDeployment(t.Context(), account, source.Deployment)
	storetest.WantNotFound(t, "before the archive", err)
	status, err := b.GetStatus(t.Context(), account, project, source.ID)
	if err != nil || status.Build != nil || status.Source != want {
		t.Errorf("%+v, %v", status, err)
	}
	build, err := b.PutArchive(t.Context(), source.ID, []byte("archive"), domain.ArchiveTarGz)
	if err != nil || build.StatusID != source.ID || build.Deployment != source.Deployment {
		t.Fatalf("%+v, %v", build, err)
	}
	_, err = b.PutArchive(t.Context(), source.ID, []byte("another"), domain.ArchiveTarGz)
	storetest.WantConflict(t, "again", err)
	_, err = b.PutArchive(t.Context(), "0190c0f0-0000-7000-8000-000000000000", nil, domain.ArchiveTarGz)
	storetest.WantNotFound(t, "for nothing", err)
	status, err = b.GetStatus(t.Context(), account, project, source.ID)
	if err != nil || status.Build == nil || status.Build.ID != build.ID || !status.Source.Uploaded {
		t.Errorf("%+v, %v", status, err)
	}
	for _, other := range [][2]string{{"second", project}, {account, "other"}, {account, "\x00"}} {
		_, err := b.GetStatus(t.Context(), other[0], other[1], source.ID)
		storetest.WantNotFound(t, "from elsewhere", err)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_sources WHERE archive = ? AND format = 'tar.gz' AND size = 7", []byte("archive")); n != 1 {
		t.Errorf("%d archives", n)
	}
	got, err := b.GetSource(t.Context(), source.ID)
	if err != nil || !got.Uploaded {
		t.Errorf("%+v, %v", got, err)
	}
}

func testPutArchiveOnce(t *testing.T, b *bench) {
	b.project(t, account, project)
	source, err := b.CreateSource(t.Context(), target("main"))
	if err != nil {
		t.Fatal(err)
	}
	var good, conflicts atomic.Int32
	together(8, func() {
		_, err := b.PutArchive(t.Context(), source.ID, []byte("archive"), domain.ArchiveZip)
		switch {
		case err == nil:
			good.Add(1)
		case errors.Is(err, domain.ErrConflict):
			conflicts.Add(1)
		default:
			t.Error(err)
		}
	})
	if good.Load() != 1 || conflicts.Load() != 7 {
		t.Errorf("%d were taken, %d refused", good.Load(), conflicts.Load())
	}
}

func together(n int, do func()) {
	var group sync.WaitGroup
	for range n {
		group.Go(do)
	}
	group.Wait()
}

// testUploadAudit has a caller make a source, and nobody with a key upload the archive.
func testUploadAudit(t *testing.T, b *bench) {
	b.project(t, account, project)
	caller := domain.Caller{Account: account, Sub: "staff/jo", Type: "key", KeyID: "key_1", RequestID: "req-1", Address: "192.0.2.1"}
	source, err := b.CreateSource(auditlog.WithCaller(t.Context(), caller), target("main"))
	if err != nil {
		t.Fatal(err)
	}
	nobody := domain.Caller{RequestID: "req-2", Address: "192.0.2.2", UserAgent: "curl", Method: "PUT", Route: "/v1/deployment-uploads/{sourceId}"}
	build, err := b.PutArchive(auditlog.WithCaller(t.Context(), nobody), source.ID, []byte("archive"), domain.ArchiveZip)
	if err != nil {
		t.Fatal(err)
	}
	if build.CreatedBy != "staff/jo" || b.count(t, "SELECT COUNT(*) FROM gateway_builds WHERE created_key = 'key_1' AND request_id = 'req-2'") != 1 {
		t.Errorf("made by %q", build.CreatedBy)
	}
	entries, _, err := b.audit.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Page: all()})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	nobody.Account, nobody.Sub, nobody.Type, nobody.KeyID = account, "staff/jo", "key", "key_1"
	for i, want := range []domain.AuditEntry{
		{Action: auditlog.ActionUploadArchive, Caller: nobody, Resources: []domain.Resource{
			{Type: "deployment", ID: source.Deployment, Name: source.Deployment}, {Type: "build", ID: build.ID},
		}},
		{Action: auditlog.ActionUploadSource, Caller: caller, Resources: []domain.Resource{{Type: "deployment", ID: source.Deployment, Name: source.Deployment}}},
	} {
		got := entries[i]
		got.Caller.Account = want.Caller.Account // the log is the account's
		if diff := cmp.Diff([]any{want.Action, want.Caller, want.Resources}, []any{got.Action, got.Caller, got.Resources}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func testUploadNowhere(t *testing.T, b *bench) {
	b.project(t, account, project)
	for _, target := range []deployments.Target{
		{Account: account, Project: "other", Branch: "main"}, {Account: "second", Project: project, Branch: "main"}, {Account: account, Project: "\x00", Branch: "main"},
	} {
		_, err := b.CreateSource(t.Context(), target)
		storetest.WantNotFound(t, "source", err)
		_, err = b.Upload(t.Context(), target, []byte("archive"), domain.ArchiveZip)
		storetest.WantNotFound(t, "upload", err)
	}
	if n := b.count(t, "SELECT (SELECT COUNT(*) FROM gateway_sources) + (SELECT COUNT(*) FROM gateway_deployments)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// fill makes deployments of a project, as many as are wanted.
func (b *bench) fill(t testing.TB, project string, n int) {
	t.Helper()
	b.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number, version, created_at, created_by, updated_at)
		SELECT CAST(? AS text) || '-' || i, ?, CAST(? AS text), 'b' || i, 'preview', 'STARTED', '', 'build-' || i, 1, 1, 1, ?, '', ? FROM n`,
		n, project, account, project, b.DB.Moment(noon), b.DB.Moment(noon))
}

func testNameTaken(t *testing.T, b *bench) {
	b.project(t, account, project)
	b.fill(t, "elsewhere", 1)
	b.exec(t, "UPDATE gateway_deployments SET name = ?", domain.DeploymentName(account, project, "main"))
	_, err := b.CreateSource(t.Context(), target("main"))
	storetest.WantConflict(t, "source", err)
	_, err = b.Upload(t.Context(), target("main"), []byte("archive"), domain.ArchiveZip)
	storetest.WantConflict(t, "upload", err)
}

func testMaxDeployments(t *testing.T, b *bench) {
	b.project(t, account, project)
	there := b.upload(t, "there")
	b.fill(t, "elsewhere", domain.MaxDeployments-2)
	var good, refused atomic.Int32
	var group sync.WaitGroup
	for _, branch := range []string{"one", "two", "three", "four"} {
		group.Go(func() {
			_, err := b.Upload(t.Context(), target(branch), []byte("archive"), domain.ArchiveZip)
			switch {
			case err == nil:
				good.Add(1)
			case errors.Is(err, domain.ErrLimit) && !errors.Is(err, deployments.ErrBuilds):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if good.Load() != 1 || refused.Load() != 3 {
		t.Errorf("%d were made, %d refused", good.Load(), refused.Load())
	}
	if _, err := b.CreateSource(t.Context(), target("five")); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("source: %v", err)
	}
	b.upload(t, "there")
	if err := b.DeleteDeployment(t.Context(), account, there.Deployment); err != nil {
		t.Fatal(err)
	}
	b.upload(t, "six")
	if _, err := b.Upload(t.Context(), target("there"), []byte("archive"), domain.ArchiveZip); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("one that was removed: %v", err)
	}
}

func testMaxOpenBuilds(t *testing.T, b *bench) {
	b.project(t, account, project)
	first := b.upload(t, "main")
	for range domain.MaxOpenBuilds - 1 {
		b.upload(t, "main")
	}
	_, err := b.Upload(t.Context(), target("main"), []byte("archive"), domain.ArchiveZip)
	if !errors.Is(err, deployments.ErrBuilds) || !errors.Is(err, domain.ErrLimit) {
		t.Errorf("upload: %v", err)
	}
	if _, err := b.Redeploy(t.Context(), account, first.Deployment, ""); !errors.Is(err, deployments.ErrBuilds) {
		t.Errorf("redeploy: %v", err)
	}
	b.end(t, first, domain.BuildError)
	b.upload(t, "main")
}

func testUploadsRace(t *testing.T, b *bench) {
	b.project(t, account, project)
	var mu sync.Mutex
	numbers := map[int64]bool{}
	together(12, func() {
		build, err := b.Upload(t.Context(), target("main"), []byte("archive"), domain.ArchiveZip)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		numbers[build.Number] = true
	})
	for n := range int64(12) {
		if !numbers[n+1] {
			t.Errorf("no build has number %d: %v", n+1, numbers)
		}
	}
	listed, err := b.GetDeployment(t.Context(), account, domain.DeploymentName(account, project, "main"))
	if err != nil || listed.LastBuild.Number != 12 {
		t.Errorf("%+v, %v", listed, err)
	}
}

func testPurgeSources(t *testing.T, b *bench) {
	b.project(t, account, project)
	source, err := b.CreateSource(t.Context(), target("main"))
	if err != nil {
		t.Fatal(err)
	}
	build := b.upload(t, "main")
	purge := func() {
		t.Helper()
		if err := b.Purge(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	b.Clock.Advance(domain.UploadTime + time.Minute)
	purge()
	if _, err := b.GetStatus(t.Context(), account, project, source.ID); err != nil {
		t.Errorf("a while after its time: %v", err)
	}
	b.Clock.Advance(time.Hour)
	purge()
	_, err = b.GetStatus(t.Context(), account, project, source.ID)
	storetest.WantNotFound(t, "an hour later", err)
	if _, err := b.GetStatus(t.Context(), account, project, build.StatusID); err != nil {
		t.Error(err)
	}
}
