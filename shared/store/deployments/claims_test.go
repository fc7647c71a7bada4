package deployments_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/storetest"
)

// TestClaims is what gateways rely on, on both databases.
func TestClaims(t *testing.T) {
	storetest.Run(t, newClaimBench, map[string]storetest.Tests[*claimBench]{"claims": {
		"hands out the oldest build, with what it is made of": testClaim,
		"hands out each build once":                           testClaimRace,
		"serves accounts in turn":                             testTurns,
		"hands out a build again when its gateway has gone":   testTakeOver,
		"ends what was begun three times":                     testAbandoned,
		"takes a build back":                                  testRelease,
		"shows how far a build has come":                      testReport,
		"activates a build in one transaction":                testActivate,
		"does not activate what was superseded":               testSuperseded,
		"keeps the highest of many that end at once":          testActivationRace,
		"leaves what is active when a build fails":            testFailure,
		"lets go of archives whose builds failed":             testFailedArchives,
		"has no claim on what was deleted":                    testDeletedMeanwhile,
		"notes which variables a build does not have":         testVariablesChanged,
		"seals the variables of a build":                      testSealedSnapshot,
	}})
}

type claimBench struct {
	*storetest.Bench
	*deployments.Deployments
}

func newClaimBench(b *storetest.Bench) *claimBench {
	bench := &claimBench{b, deployments.New(b.DB)}
	err := b.DB.Writing(context.Background()).Exec("INSERT INTO projects (id, account, name, created_at, production_branch) VALUES ('prj_1', 'default', 'shop', ?, 'main')", b.DB.Moment(b.DB.Now())).Error
	if err != nil {
		panic(err)
	}
	return bench
}

func (b *claimBench) run(t testing.TB, statement string, args ...any) {
	t.Helper()
	if err := b.DB.Writing(t.Context()).Exec(statement, args...).Error; err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// value returns the one value that a query finds, as text.
func (b *claimBench) value(t testing.TB, query string, args ...any) string {
	t.Helper()
	var value any
	if err := b.DB.Reading(t.Context()).Raw(query, args...).Row().Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if raw, ok := value.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}

// enqueue uploads an archive for the branch.
func (b *claimBench) enqueue(t testing.TB, branch string) domain.Build {
	t.Helper()
	b.Clock.Advance(time.Millisecond)
	ctx := auditlog.WithCaller(t.Context(), domain.Caller{Account: domain.DefaultAccount, Sub: "shop-production/ci", KeyID: "key_1", RequestID: "request-1"})
	build, err := b.Upload(ctx, deployments.Target{Account: domain.DefaultAccount, Project: "shop", Branch: branch}, []byte("archive"), domain.ArchiveZip)
	if err != nil {
		t.Fatal(err)
	}
	return build
}

func (b *claimBench) claim(t testing.TB) *deployments.Claim {
	t.Helper()
	claim, err := b.ClaimBuild(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (b *claimBench) mustEnd(t testing.TB, claim *deployments.Claim, result deployments.Result) bool {
	t.Helper()
	active, err := b.EndBuild(t.Context(), claim, result)
	if err != nil {
		t.Fatal(err)
	}
	return active
}

func fault(detail string) deployments.Result {
	return deployments.Result{Faults: []domain.BuildFault{{File: "a.oas.json", Operation: "op", Pointer: "/paths", Detail: detail}}}
}

func (b *claimBench) deployment(t testing.TB, name string) string {
	t.Helper()
	return b.value(t, "SELECT state || ' ' || active_number || ' ' || version || ' ' || message FROM gateway_deployments WHERE name = ?", name)
}

func testClaim(t *testing.T, b *claimBench) {
	if claim := b.claim(t); claim != nil {
		t.Fatalf("nothing waits, but %+v", claim.Build)
	}
	first, second := b.enqueue(t, "main"), b.enqueue(t, "main")
	claim := b.claim(t)
	want := first
	want.Status, want.Steps, want.Faults = domain.BuildBuilding, nil, nil
	if diff := cmp.Diff(want, claim.Build); diff != "" || want.Number != 1 || want.SourceID == "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if claim.Format != "zip" || string(claim.Archive) != "archive" || claim.Before != nil || claim.Build.CreatedOn.IsZero() {
		t.Errorf("%+v", claim)
	}
	if claim := b.claim(t); claim == nil || claim.Build.ID != second.ID {
		t.Errorf("%+v, want the other one", claim)
	}
	if claim := b.claim(t); claim != nil {
		t.Errorf("both are in hand, but %+v", claim.Build)
	}
}

func testClaimRace(t *testing.T, b *claimBench) {
	const builds, gateways = 60, 8
	for i := range builds {
		b.enqueue(t, fmt.Sprint("branch-", i%7))
	}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range gateways {
		all.Go(func() {
			for {
				claim, err := b.ClaimBuild(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if claim == nil {
					return
				}
				mu.Lock()
				got[claim.Build.ID]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	// Who finds all that waits locked goes; the rest is there for the next.
	for claim := b.claim(t); claim != nil; claim = b.claim(t) {
		got[claim.Build.ID]++
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was handed out %d times", id, n)
		}
	}
	if len(got) != builds {
		t.Errorf("%d builds were handed out, want %d", len(got), builds)
	}
}

// An account that queues many builds holds nobody up by more than the build that is in hand. One
// that deletes what was built for it does not get more than its turn, either.
func testTurns(t *testing.T, b *claimBench) {
	uploads := map[string]int{}
	queue := func(account string, builds int) {
		t.Helper()
		for range builds {
			uploads[account]++
			b.Clock.Advance(time.Millisecond)
			target := deployments.Target{Account: account, Project: "shop", Branch: fmt.Sprint("branch-", uploads[account])}
			if _, err := b.Upload(t.Context(), target, []byte("archive"), domain.ArchiveZip); err != nil {
				t.Fatal(err)
			}
		}
	}
	serve := func(builds int) (accounts string) {
		t.Helper()
		for range builds {
			claim := b.claim(t)
			if claim == nil {
				return accounts + "-"
			}
			accounts += claim.Build.Account[:1]
			b.mustEnd(t, claim, deployments.Result{})
		}
		return accounts
	}
	for _, account := range []string{"acme", "best", "cups"} {
		b.run(t, "INSERT INTO accounts (id, name, created_at) VALUES (?, ?, ?)", "acct_"+account, account, b.DB.Moment(b.DB.Now()))
		b.run(t, "INSERT INTO projects (id, account, name, created_at, production_branch) VALUES (?, ?, 'shop', ?, 'main')", "prj_"+account, account, b.DB.Moment(b.DB.Now()))
	}
	queue("acme", domain.MaxOpenBuilds)
	queue("best", 1)
	if got := serve(3); got != "aba" {
		t.Errorf("one build behind many: %s", got)
	}
	queue("cups", 2)
	queue("best", 2)
	if got := serve(6); got != "cbacba" {
		t.Errorf("three accounts: %s", got)
	}
	// What an account deletes does not bring it to the front.
	b.run(t, "DELETE FROM gateway_builds WHERE account = 'acme' AND status = 'SUCCESS'")
	queue("best", 2)
	if got := serve(4); got != "baba" {
		t.Errorf("after builds were deleted: %s", got)
	}
}

func testTakeOver(t *testing.T, b *claimBench) {
	build := b.enqueue(t, "main")
	lost := b.claim(t)
	b.Clock.Advance(deployments.Lease)
	if claim := b.claim(t); claim != nil {
		t.Fatal("the lease was not over yet")
	}
	if err := b.ReportBuild(t.Context(), lost, deployments.Progress{}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(deployments.Lease + time.Millisecond)
	taken := b.claim(t)
	if taken == nil || taken.Build.ID != build.ID {
		t.Fatalf("%+v", taken)
	}
	if err := b.ReportBuild(t.Context(), lost, deployments.Progress{}); !errors.Is(err, deployments.ErrClaimLost) {
		t.Errorf("report of who lost it: %v", err)
	}
	if _, err := b.EndBuild(t.Context(), lost, deployments.Result{Routes: 9}); !errors.Is(err, deployments.ErrClaimLost) {
		t.Errorf("end of who lost it: %v", err)
	}
	if err := b.ReleaseBuild(t.Context(), lost); err != nil {
		t.Error(err)
	}
	if !b.mustEnd(t, taken, deployments.Result{Routes: 3}) {
		t.Error("it is not active")
	}
	if got := b.value(t, "SELECT status || ' ' || routes || ' ' || claims FROM gateway_builds WHERE id = ?", build.ID); got != "SUCCESS 3 2" {
		t.Error(got)
	}
	b.Clock.Advance(time.Hour)
	if claim := b.claim(t); claim != nil {
		t.Errorf("it has ended, but %+v", claim.Build)
	}
}

func testAbandoned(t *testing.T, b *claimBench) {
	build := b.enqueue(t, "main")
	for i := range deployments.MaxClaims {
		if n, err := b.FailAbandoned(t.Context()); n != 0 || err != nil {
			t.Fatalf("after %d claims: %d, %v", i, n, err)
		}
		if b.claim(t) == nil {
			t.Fatalf("claim %d: none", i+1)
		}
		b.Clock.Advance(deployments.Lease + time.Millisecond)
	}
	if claim := b.claim(t); claim != nil {
		t.Error("it is begun a fourth time")
	}
	before, _ := b.GatewayVersion(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		all.Go(func() {
			n, err := b.FailAbandoned(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
		})
	}
	all.Wait()
	want := fmt.Sprintf("ERRORED 0 %d Build 1 has failed: it was begun 3 times, and no gateway came to its end", before+1)
	if got := b.deployment(t, build.Deployment); got != want || total != 1 {
		t.Errorf("%d: %q, want %q", total, got, want)
	}
	if got := b.value(t, "SELECT status || ' ' || faults FROM gateway_builds WHERE id = ?", build.ID); !strings.Contains(got, `ERROR [{"file":"","detail":"it was begun`) {
		t.Error(got)
	}
}

func testRelease(t *testing.T, b *claimBench) {
	b.enqueue(t, "main")
	for range 5 {
		claim := b.claim(t)
		if claim == nil {
			t.Fatal("none waits")
		}
		if err := b.ReleaseBuild(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
}

func testReport(t *testing.T, b *claimBench) {
	build := b.enqueue(t, "main")
	claim := b.claim(t)
	steps := []domain.BuildStep{{Name: "unpack", Status: domain.BuildBuilding, StartedOn: storetest.Noon()}}
	log := []domain.BuildLine{{Step: "unpack", Timestamp: storetest.Noon(), Level: "info", Message: "2 files"}}
	if err := b.ReportBuild(t.Context(), claim, deployments.Progress{Steps: steps, Log: log}); err != nil {
		t.Fatal(err)
	}
	var gotSteps []domain.BuildStep
	var gotLog []domain.BuildLine
	if err := errors.Join(json.Unmarshal([]byte(b.value(t, "SELECT steps FROM gateway_builds WHERE id = ?", build.ID)), &gotSteps),
		json.Unmarshal([]byte(b.value(t, "SELECT log FROM gateway_builds WHERE id = ?", build.ID)), &gotLog)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps, gotSteps) + cmp.Diff(log, gotLog); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testActivate(t *testing.T, b *claimBench) {
	build := b.enqueue(t, "main")
	before, _ := b.GatewayVersion(t.Context())
	if !b.mustEnd(t, b.claim(t), deployments.Result{Routes: 4}) {
		t.Error("it is not active")
	}
	if got, want := b.deployment(t, build.Deployment), fmt.Sprintf("STARTED 1 %d ", before+1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if after, _ := b.GatewayVersion(t.Context()); after != before+1 {
		t.Errorf("version %d, want %d", after, before+1)
	}
	entries, _, err := auditlog.New(b.DB).ListAudit(t.Context(), auditlog.AuditFilter{Account: "default", Action: auditlog.ActionActivateBuild, Page: store.Page{Limit: 9}})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	e := entries[0]
	if e.Caller.Sub != "shop-production/ci" || e.Caller.KeyID != "key_1" || e.Caller.RequestID != "request-1" || len(e.Resources) != 2 || e.Resources[1].ID != build.ID {
		t.Errorf("%+v", e)
	}
	if got := b.value(t, "SELECT log FROM gateway_builds WHERE id = ?", build.ID); !strings.Contains(got, "build 1 is active") {
		t.Error(got)
	}
	// What can't be written whole is not written at all.
	next := b.enqueue(t, "main")
	claim := b.claim(t)
	b.run(t, "DROP TABLE gateway_version")
	if _, err := b.EndBuild(t.Context(), claim, deployments.Result{}); err == nil {
		t.Fatal("it ends without a version")
	}
	if got := b.value(t, "SELECT status || ' ' || (SELECT active_number FROM gateway_deployments) || ' ' || (SELECT COUNT(*) FROM audit_log WHERE action = 'activate-build') FROM gateway_builds WHERE id = ?", next.ID); got != "BUILDING 1 1" {
		t.Errorf("half of it is there: %s", got)
	}
}

func testSuperseded(t *testing.T, b *claimBench) {
	b.enqueue(t, "main")
	b.enqueue(t, "main")
	first, second := b.claim(t), b.claim(t)
	if !b.mustEnd(t, second, deployments.Result{}) || b.mustEnd(t, first, deployments.Result{}) {
		t.Error("the lower number is active")
	}
	version, _ := b.GatewayVersion(t.Context())
	if got, want := b.deployment(t, first.Build.Deployment), fmt.Sprintf("STARTED 2 %d ", version); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := b.value(t, "SELECT status || ' ' || CASE WHEN activated_at IS NULL THEN 'never ' ELSE '' END || log FROM gateway_builds WHERE number = 1")
	if !strings.HasPrefix(got, "SUCCESS never ") || !strings.Contains(got, "superseded: build 2 is active already") {
		t.Error(got)
	}
}

func testActivationRace(t *testing.T, b *claimBench) {
	const builds = 24
	claims := make([]*deployments.Claim, builds)
	for i := range claims {
		b.enqueue(t, "main")
		claims[i] = b.claim(t)
	}
	var all sync.WaitGroup
	for i, claim := range claims {
		all.Go(func() {
			result := deployments.Result{}
			if i%5 == 4 {
				result = fault("is wrong")
			}
			if _, err := b.EndBuild(context.WithoutCancel(t.Context()), claim, result); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := b.value(t, "SELECT state || active_number || CASE WHEN active_build = ? THEN '' ELSE ' other' END FROM gateway_deployments", claims[builds-1].Build.ID); got != "STARTED24" {
		t.Error(got)
	}
}

func testFailure(t *testing.T, b *claimBench) {
	first := b.enqueue(t, "main")
	version := func() int64 { v, _ := b.GatewayVersion(t.Context()); return v }
	before := version()
	b.mustEnd(t, b.claim(t), fault("is wrong"))
	if got, want := b.deployment(t, first.Deployment), fmt.Sprintf("ERRORED 0 %d Build 1 has failed: a.oas.json: op: /paths: is wrong", before+1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.enqueue(t, "main")
	b.mustEnd(t, b.claim(t), deployments.Result{})
	started := version()
	b.enqueue(t, "main")
	many := fault(strings.Repeat("é", 1000))
	many.Faults = append(many.Faults, many.Faults[0], many.Faults[0])
	b.mustEnd(t, b.claim(t), many)
	got := b.deployment(t, first.Deployment)
	if want := fmt.Sprintf("STARTED 2 %d Build 3 has failed: a.oas.json: op: /paths: é", started); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "é… (and 2 more)") || len(got) > 600 {
		t.Errorf("%q, want %q", got, want)
	}
	if version() != started {
		t.Error("gateways are told of a failure that changes nothing for them")
	}
	// One that is under way may still make it good.
	other := b.enqueue(t, "other")
	b.enqueue(t, "other")
	older, newer := b.claim(t), b.claim(t)
	b.mustEnd(t, newer, fault("is wrong"))
	if got := b.deployment(t, other.Deployment); !strings.HasPrefix(got, "BUILDING 0 ") || !strings.Contains(got, "Build 2 has failed") {
		t.Error(got)
	}
	b.mustEnd(t, older, fault("is wrong, too"))
	if got := b.deployment(t, other.Deployment); !strings.HasPrefix(got, "ERRORED 0 ") || !strings.Contains(got, "Build 2 has failed") {
		t.Error(got)
	}
}

func testDeletedMeanwhile(t *testing.T, b *claimBench) {
	build := b.enqueue(t, "main")
	claim := b.claim(t)
	b.run(t, "UPDATE gateway_deployments SET removed_at = ?", b.DB.Moment(b.DB.Now()))
	b.run(t, "DELETE FROM gateway_builds")
	if err := b.ReportBuild(t.Context(), claim, deployments.Progress{}); !errors.Is(err, deployments.ErrClaimLost) {
		t.Errorf("report: %v", err)
	}
	for _, result := range []deployments.Result{{}, fault("is wrong")} {
		if _, err := b.EndBuild(t.Context(), claim, result); !errors.Is(err, deployments.ErrClaimLost) {
			t.Errorf("end: %v", err)
		}
	}
	if got := b.value(t, "SELECT active_number FROM gateway_deployments WHERE name = ?", build.Deployment); got != "0" {
		t.Error(got)
	}
}

func testVariablesChanged(t *testing.T, b *claimBench) {
	changed := func() string {
		return b.value(t, "SELECT CASE WHEN variables_changed_at IS NULL THEN 'none' ELSE 'newer' END FROM gateway_deployments")
	}
	change := func() {
		b.Clock.Advance(time.Second)
		b.run(t, "UPDATE gateway_deployments SET variables_changed_at = ?", b.DB.Moment(b.DB.Now()))
	}
	b.enqueue(t, "main")
	change()
	b.mustEnd(t, b.claim(t), deployments.Result{})
	if got := changed(); got != "none" {
		t.Errorf("after a build with all variables: %s", got)
	}
	change()
	b.enqueue(t, "main")
	claim := b.claim(t)
	change()
	b.mustEnd(t, claim, deployments.Result{})
	if got := changed(); got != "newer" {
		t.Errorf("after a change during the build: %s", got)
	}
	b.enqueue(t, "main")
	b.mustEnd(t, b.claim(t), fault("is wrong"))
	if got := changed(); got != "newer" {
		t.Errorf("after a build that failed: %s", got)
	}
}

func testSealedSnapshot(t *testing.T, b *claimBench) {
	const canary = "hunter2-canary"
	build := b.enqueue(t, "main")
	b.mustEnd(t, b.claim(t), deployments.Result{Variables: []domain.Variable{{Name: "TOKEN", Secret: true, Value: canary}, {Name: "EMPTY"}}})
	if got := b.value(t, "SELECT variables FROM gateway_builds WHERE id = ?", build.ID); got == "" || strings.Contains(got, canary) {
		t.Errorf("%q", got)
	}
	b.enqueue(t, "main")
	claim := b.claim(t)
	if len(claim.Before) != 2 || claim.Before["TOKEN"].Reveal() != canary {
		t.Errorf("%d variables of the active build", len(claim.Before))
	}
	// Moved to another build, they can't be opened.
	b.run(t, "UPDATE gateway_builds SET variables = (SELECT variables FROM gateway_builds WHERE number = 1), status = 'SUCCESS' WHERE number = 2")
	b.run(t, "UPDATE gateway_deployments SET active_build = ?", claim.Build.ID)
	b.enqueue(t, "main")
	if claim := b.claim(t); claim == nil || claim.Before != nil {
		t.Error("the variables of another build are read, or keep this one from being built")
	}
	b.enqueue(t, "main")
	b.run(t, "DELETE FROM gateway_sources")
	if claim := b.claim(t); claim == nil || claim.Archive != nil {
		t.Error("an archive that is not there keeps the build from being tried")
	}
}
