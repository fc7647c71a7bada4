package deployments_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
)

// testFailedArchives has three archives of a deployment: one succeeds, two fail.
func testFailedArchives(t *testing.T, b *claimBench) {
	build := func(of domain.Build, result deployments.Result) domain.Build {
		t.Helper()
		claim := b.claim(t)
		if claim == nil || claim.Build.ID != of.ID {
			t.Fatalf("claimed %+v", claim)
		}
		b.mustEnd(t, claim, result)
		return of
	}
	kept := func(what string, want string) {
		t.Helper()
		wantBytes(t, b.DB, what)
		if n := b.value(t, "SELECT COUNT(*) FROM gateway_sources WHERE archive IS NOT NULL AND size > 0"); n != want {
			t.Errorf("%s: %s archives are kept, want %s", what, n, want)
		}
	}
	redeploy := func(of domain.Build) (domain.Build, error) {
		return b.Redeploy(t.Context(), domain.DefaultAccount, of.Deployment, of.ID)
	}
	good := build(b.enqueue(t, "main"), deployments.Result{Routes: 1})
	first := build(b.enqueue(t, "main"), fault("wrong"))
	kept("after a failure", "2")
	again, err := redeploy(first)
	if err != nil {
		t.Fatal(err)
	}
	build(again, fault("still wrong"))
	kept("after it failed again", "2")
	second := build(b.enqueue(t, "main"), fault("wrong, too"))
	kept("after the next upload", "2")
	if _, err := redeploy(first); !errors.Is(err, deployments.ErrNoArchive) {
		t.Errorf("a build whose archive is gone: %v", err)
	}
	purge := func() {
		t.Helper()
		if err := b.Purge(t.Context(), b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	b.Clock.Advance(23 * time.Hour)
	purge()
	kept("after 23 hours", "2")
	b.Clock.Advance(2 * time.Hour)
	purge()
	kept("after 25 hours", "1")
	if b.Kept() != int64(len("archive")) {
		t.Errorf("%d bytes are counted", b.Kept())
	}
	if _, err := redeploy(second); !errors.Is(err, deployments.ErrNoArchive) {
		t.Errorf("a build whose archive is purged: %v", err)
	}
	if _, err := redeploy(good); err != nil {
		t.Errorf("the one that succeeded: %v", err)
	}
}

func testSourceBytes(t *testing.T, b *bench) {
	b.project(t, account, project)
	b.Keep(20, 100)
	upload := func(branch string) (domain.Build, error) {
		return b.Upload(t.Context(), target(branch), []byte("seven b"), domain.ArchiveZip)
	}
	first, err := upload("main")
	if err == nil {
		_, err = upload("feature/a")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = upload("feature/b")
	full, ok := errors.AsType[*deployments.SourcesError](err)
	if !ok || full.Kept != 21 || full.Limit != 20 || !errors.Is(err, domain.ErrLimit) {
		t.Errorf("a third archive: %v", err)
	}
	if n := b.count(t, "SELECT (SELECT COUNT(*) FROM gateway_sources) + (SELECT COUNT(*) FROM gateway_builds)"); n != 4 {
		t.Errorf("%d rows after a refusal, want 4", n)
	}
	source, err := b.CreateSource(t.Context(), target("main"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutArchive(t.Context(), source.ID, []byte("seven b"), domain.ArchiveZip); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("a third archive in two steps: %v", err)
	}
	if err := b.DeleteDeployment(t.Context(), account, first.Deployment); err != nil {
		t.Fatal(err)
	}
	if _, err := upload("feature/b"); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
	if kept, most, err := b.SourceBytes(t.Context(), account); kept != 14 || most != 20 || err != nil {
		t.Errorf("%d of %d bytes are kept: %v", kept, most, err)
	}
	if kept, _, err := b.SourceBytes(t.Context(), "globex"); kept != 0 || err != nil {
		t.Errorf("another account keeps %d bytes: %v", kept, err)
	}
	wantBytes(t, b.DB, "refusals")
}

// wantBytes compares the counts of bytes with what is kept.
func wantBytes(t *testing.T, db *store.Store, after string) {
	t.Helper()
	read := func(query string) (texts []string) {
		if err := db.Reading(t.Context()).Raw(query).Scan(&texts).Error; err != nil {
			t.Fatal(err)
		}
		return texts
	}
	const kept = "SELECT account || ' ' || SUM(size) FROM gateway_sources WHERE size > 0 GROUP BY account ORDER BY account"
	const counted = "SELECT account || ' ' || n FROM account_counts WHERE kind = 'sources' AND n <> 0 ORDER BY account"
	if diff := cmp.Diff(read(kept), read(counted)); diff != "" {
		t.Errorf("bytes after %s (-kept +counted):\n%s", after, diff)
	}
}

// testManyFailed has more archives of failed builds than are purged at a time.
func testManyFailed(t *testing.T, b *bench) {
	b.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO gateway_sources (id, account, project, branch, deployment, format, size, archive, created_at, created_by, created_key, uploaded_at, failed_at)
		SELECT 's' || i, CASE WHEN i < 7 THEN 'globex' ELSE 'default' END, 'shop', 'main', 'd' || i, 'zip', 7, ?, ?, '', '', ?, ? FROM n`,
		[]byte("archive"), b.DB.Moment(noon), b.DB.Moment(noon), b.DB.Moment(noon))
	b.Clock.Advance(25 * time.Hour)
	if err := b.Purge(t.Context(), b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM gateway_sources WHERE size > 0"); n != 0 {
		t.Errorf("%d archives are kept after a day", n)
	}
	wantBytes(t, b.DB, "a purge")
}

func testAccountVariables(t *testing.T, b *bench) {
	b.project(t, account, project)
	b.Keep(1<<20, 2)
	create := func(branch string) error {
		_, err := b.CreateVariable(t.Context(), domain.Variable{Account: account, Project: project, Branch: branch, Name: "A"})
		return err
	}
	for _, branch := range []string{"a", "b"} {
		if err := create(branch); err != nil {
			t.Fatal(err)
		}
	}
	full, ok := errors.AsType[*domain.LimitError](create("c"))
	if !ok || *full != (domain.LimitError{What: "variables", Setting: "WAYBILL_MAX_VARIABLES", Count: 3, Most: 2}) {
		t.Errorf("a third variable: %+v", full)
	}
	if err := b.DeleteVariable(t.Context(), deployments.VariableRef{Account: account, Project: project, Branch: "a", Name: "A"}); err != nil {
		t.Fatal(err)
	}
	if err := create("c"); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}
