package deployments_test

import (
	"errors"
	"testing"
	"time"

	"waybill.dev/shared/domain"
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
	b.KeepSources(20)
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
}
