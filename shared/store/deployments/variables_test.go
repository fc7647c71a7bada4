package deployments_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// TestVariables is what callers rely on, on both databases.
func TestVariables(t *testing.T) {
	storetest.Run(t, newVariableBench, map[string]storetest.Tests[*variableBench]{"variables": {
		"keeps every field":                           testVariableFields,
		"lists what a branch has, without secrets":    testListVariables,
		"changes a value":                             testUpdateVariable,
		"replaces a value that does not open":         testUnreadableVariable,
		"deletes a variable":                          testDeleteVariable,
		"finds nothing under other names":             testForeignVariables,
		"builds previews with what all previews have": testVariablesOf,
		"marks the deployments that take it":          testVariableMarks,
		"takes a hundred a branch, however fast":      testVariableLimit,
		"tells of every change, and no value":         testVariableAudit,
	}})
}

type variableBench struct {
	*pipelinetest.Bench
	*deployments.Deployments
}

func newVariableBench(b *storetest.Bench) *variableBench {
	return &variableBench{pipelinetest.New(b), deployments.New(b.DB)}
}

func ref(branch, name string) deployments.VariableRef {
	return deployments.VariableRef{Account: account, Project: project, Branch: branch, Name: name}
}

func (b *variableBench) variable(t *testing.T, branch, name, value string, change ...func(*domain.Variable)) domain.Variable {
	t.Helper()
	v := domain.Variable{Account: account, Project: project, Branch: branch, Name: name, Value: domain.Secret(value)}
	for _, c := range change {
		c(&v)
	}
	made, err := b.CreateVariable(t.Context(), v)
	if err != nil {
		t.Fatalf("create variable %s of %s: %v", name, branch, err)
	}
	return made
}

func secret(v *domain.Variable) { v.Secret = true }

func (b *variableBench) list(t *testing.T, branch string) []domain.Variable {
	t.Helper()
	list, total, err := b.ListVariables(t.Context(), account, project, branch, all())
	if err != nil || total != len(list) {
		t.Fatalf("list variables: %d of %d, %v", len(list), total, err)
	}
	return list
}

// taken returns what a build takes, as NAME=value.
func (b *variableBench) taken(t *testing.T, branch string, kind domain.EnvironmentType) []string {
	t.Helper()
	variables, err := b.VariablesOf(t.Context(), account, project, branch, kind)
	if err != nil {
		t.Fatalf("read variables: %v", err)
	}
	texts := make([]string, len(variables))
	for i, v := range variables {
		texts[i] = v.Name + "=" + v.Value.Reveal()
	}
	return texts
}

func want[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, storetest.Secrets()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testVariableFields(t *testing.T, b *variableBench) {
	value := strings.Repeat("ü☃\n\"", 500)
	shown := domain.Variable{
		Account: account, Project: project, Branch: "feature/a.b_c-1", Name: "GREETING", Value: domain.Secret(value),
		CreatedOn: storetest.Noon(), UpdatedOn: storetest.Noon(),
	}
	want(t, "made", shown, b.variable(t, shown.Branch, shown.Name, value))
	hidden := shown
	hidden.Name, hidden.Secret, hidden.Value = "TOKEN", true, ""
	want(t, "made secret", hidden, b.variable(t, hidden.Branch, hidden.Name, "s3cret", secret))
	want(t, "listed", []domain.Variable{shown, hidden}, b.list(t, shown.Branch))
	b.variable(t, shown.Branch, "EMPTY", "")
	want(t, "taken", []string{"EMPTY=", "GREETING=" + value, "TOKEN=s3cret"}, b.taken(t, shown.Branch, domain.Production))
	_, err := b.CreateVariable(t.Context(), shown)
	storetest.WantConflict(t, "again", err)
	elsewhere := shown
	elsewhere.Account = "nobody"
	_, err = b.CreateVariable(t.Context(), elsewhere)
	storetest.WantNotFound(t, "in no account", err)
}

func testListVariables(t *testing.T, b *variableBench) {
	var names []string
	for i := range 5 {
		names = append(names, b.variable(t, "main", fmt.Sprintf("V_%d", 9-i), "x", func(v *domain.Variable) { v.Secret = i%2 == 0 }).Name)
	}
	b.variable(t, "other", "V_1", "x")
	var got []string
	for offset := 0; offset < 6; offset += 2 {
		page, total, err := b.ListVariables(t.Context(), account, project, "main", store.Page{Limit: 2, Offset: offset})
		if err != nil || total != 5 {
			t.Fatalf("total %d, %v", total, err)
		}
		for _, v := range page {
			got = append(got, v.Name)
			if (v.Value == "") != v.Secret {
				t.Errorf("%s: secret %t, value %q", v.Name, v.Secret, v.Value.Reveal())
			}
		}
	}
	want(t, "names", names, got)
}

func testUpdateVariable(t *testing.T, b *variableBench) {
	b.variable(t, "main", "A", "one")
	b.variable(t, "main", "B", "one", secret)
	b.Clock.Advance(time.Second)
	next := domain.Secret("two")
	changed, err := b.UpdateVariable(t.Context(), ref("main", "A"), &next)
	if err != nil || changed.Value != next || !changed.UpdatedOn.Equal(storetest.Noon().Add(time.Second)) || !changed.CreatedOn.Equal(storetest.Noon()) {
		t.Errorf("%+v, %v", changed, err)
	}
	hidden, err := b.UpdateVariable(t.Context(), ref("main", "B"), &next)
	if err != nil || hidden.Value != "" || !hidden.Secret {
		t.Errorf("%+v, %v", hidden, err)
	}
	want(t, "taken", []string{"A=two", "B=two"}, b.taken(t, "main", domain.Production))
	for name, before := range map[string]domain.Variable{"A": changed, "B": hidden} {
		same, err := b.UpdateVariable(t.Context(), ref("main", name), nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "unchanged", before, same)
	}
	_, err = b.UpdateVariable(t.Context(), ref("main", "C"), &next)
	storetest.WantNotFound(t, "one that is not there", err)
}

// After the encryption key is lost a secret can still be listed, replaced and deleted.
func testUnreadableVariable(t *testing.T, b *variableBench) {
	b.variable(t, "main", "TOKEN", "one", secret)
	b.variable(t, "main", "OTHER", "one", secret)
	db, _ := b.DB.Handles()
	if _, err := db.ExecContext(t.Context(), "UPDATE gateway_variables SET sealed = (SELECT sealed FROM gateway_variables WHERE name = 'OTHER')"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VariablesOf(t.Context(), account, project, "main", domain.Production); err == nil {
		t.Error("a value opens in another row")
	}
	if len(b.list(t, "main")) != 2 {
		t.Error("not all are listed")
	}
	next := domain.Secret("two")
	if _, err := b.UpdateVariable(t.Context(), ref("main", "TOKEN"), &next); err != nil {
		t.Error(err)
	}
	if err := b.DeleteVariable(t.Context(), ref("main", "OTHER")); err != nil {
		t.Error(err)
	}
	want(t, "taken", []string{"TOKEN=two"}, b.taken(t, "main", domain.Production))
}

func testDeleteVariable(t *testing.T, b *variableBench) {
	b.variable(t, "main", "A", "one")
	b.variable(t, "other", "A", "one")
	if err := b.DeleteVariable(t.Context(), ref("main", "A")); err != nil {
		t.Fatal(err)
	}
	storetest.WantNotFound(t, "again", b.DeleteVariable(t.Context(), ref("main", "A")))
	if len(b.list(t, "main")) != 0 || len(b.list(t, "other")) != 1 {
		t.Error("the wrong one is gone")
	}
}

func testForeignVariables(t *testing.T, b *variableBench) {
	b.variable(t, "main", "A", "one")
	next := domain.Secret("two")
	for _, foreign := range []deployments.VariableRef{
		{Account: "other", Project: project, Branch: "main", Name: "A"},
		{Account: account, Project: "other", Branch: "main", Name: "A"},
		{Account: account, Project: project, Branch: "Main", Name: "A"},
		{Account: account, Project: project, Branch: "main", Name: "a"},
		{Account: account, Project: project, Branch: "main\x00", Name: "A"},
		{Account: "\xff", Project: project, Branch: "main", Name: "A"},
	} {
		_, err := b.UpdateVariable(t.Context(), foreign, &next)
		storetest.WantNotFound(t, "update", err)
		storetest.WantNotFound(t, "delete", b.DeleteVariable(t.Context(), foreign))
		if foreign.Name != "A" {
			continue
		}
		if list, total, err := b.ListVariables(t.Context(), foreign.Account, foreign.Project, foreign.Branch, all()); err != nil || total != 0 || len(list) != 0 {
			t.Errorf("%+v: listed %d of %d, %v", foreign, len(list), total, err)
		}
		if taken, err := b.VariablesOf(t.Context(), foreign.Account, foreign.Project, foreign.Branch, domain.Preview); err != nil || len(taken) != 0 {
			t.Errorf("%+v: %d taken, %v", foreign, len(taken), err)
		}
	}
	want(t, "taken", []string{"A=one"}, b.taken(t, "main", domain.Production))
}

func testVariablesOf(t *testing.T, b *variableBench) {
	for _, branch := range []string{"main", "topic", "working-copy", domain.PreviewBranch} {
		b.variable(t, branch, "OWN", branch)
	}
	b.variable(t, domain.PreviewBranch, "SHARED", "all", secret)
	b.variable(t, "topic", "ALONE", "topic")
	for branch, tc := range map[string]struct {
		kind domain.EnvironmentType
		want []string
	}{
		"main":         {domain.Production, []string{"OWN=main"}},
		"working-copy": {domain.Development, []string{"OWN=working-copy"}},
		"topic":        {domain.Preview, []string{"ALONE=topic", "OWN=topic", "SHARED=all"}},
		"fresh":        {domain.Preview, []string{"OWN=~preview", "SHARED=all"}},
		"released":     {domain.Production, []string{}},
	} {
		want(t, branch, tc.want, b.taken(t, branch, tc.kind))
	}
}

// marks returns the branches of the deployments that are marked at a time.
func (b *variableBench) marks(t *testing.T, at time.Time) []string {
	t.Helper()
	db, _ := b.DB.Handles()
	rows, err := db.QueryContext(t.Context(), "SELECT account || '/' || branch FROM gateway_deployments WHERE variables_changed_at = $1 ORDER BY 1", b.DB.Moment(at))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	found := []string{}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		found = append(found, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func testVariableMarks(t *testing.T, b *variableBench) {
	db, _ := b.DB.Handles()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ('acct_x', 'other', $1)", b.DB.Moment(storetest.Noon())); err != nil {
		t.Fatal(err)
	}
	add := func(account, project, branch string, kind domain.EnvironmentType, removed any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), `INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message,
				active_build, active_number, last_number, version, created_at, created_by, updated_at, removed_at)
			VALUES ($1, $2, $3, $4, $5, 'STARTED', '', 'x', 1, 1, 7, $6, 'me', $6, $7)`,
			domain.DeploymentName(account, project, branch), account, project, branch, string(kind), b.DB.Moment(storetest.Noon()), removed)
		if err != nil {
			t.Fatal(err)
		}
	}
	add(account, project, "main", domain.Production, nil)
	add(account, project, "a", domain.Preview, nil)
	add(account, project, "b", domain.Preview, nil)
	add(account, project, "gone", domain.Preview, b.DB.Moment(storetest.Noon()))
	add(account, project, domain.WorkingCopy, domain.Development, nil)
	add(account, "second", "a", domain.Preview, nil)
	add("other", project, "a", domain.Preview, nil)
	version, err := b.GatewayVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one, two := domain.Secret("1"), domain.Secret("2")
	for _, step := range []struct {
		doing string
		do    func() error
		want  []string
	}{
		{"create", func() error { b.variable(t, "main", "A", "1"); return nil }, []string{"default/main"}},
		{"create for previews", func() error { b.variable(t, domain.PreviewBranch, "A", "1"); return nil }, []string{"default/a", "default/b"}},
		{"create for a branch without a deployment", func() error { b.variable(t, "gone", "A", "1"); return nil }, []string{}},
		{"update", func() error { _, err := b.UpdateVariable(t.Context(), ref("main", "A"), &two); return err }, []string{"default/main"}},
		{"update with the same", func() error { _, err := b.UpdateVariable(t.Context(), ref("main", "A"), &two); return err }, []string{}},
		{"update with nothing", func() error { _, err := b.UpdateVariable(t.Context(), ref("main", "A"), nil); return err }, []string{}},
		{"update of nothing", func() error {
			if _, err := b.UpdateVariable(t.Context(), ref("a", "A"), &one); !errors.Is(err, domain.ErrNotFound) {
				return err
			}
			return nil
		}, []string{}},
		{"delete", func() error { return b.DeleteVariable(t.Context(), ref(domain.PreviewBranch, "A")) }, []string{"default/a", "default/b"}},
	} {
		b.Clock.Advance(time.Minute)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.doing, err)
		}
		want(t, step.doing, step.want, b.marks(t, b.Clock.Now()))
	}
	if now, err := b.GatewayVersion(t.Context()); err != nil || now != version {
		t.Errorf("the version is %d, was %d, %v: gateways look for what is not there", now, version, err)
	}
}

func testVariableLimit(t *testing.T, b *variableBench) {
	for i := range domain.MaxVariables - 1 {
		b.variable(t, "main", fmt.Sprintf("V_%d", i), "x")
	}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = b.CreateVariable(t.Context(), domain.Variable{Account: account, Project: project, Branch: "main", Name: fmt.Sprintf("W_%d", i)})
		})
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if !errors.Is(err, domain.ErrLimit) {
			t.Errorf("%v, want the limit", err)
		}
	}
	if n := len(b.list(t, "main")); made != 1 || n != domain.MaxVariables {
		t.Errorf("%d made, %d there", made, n)
	}
	b.variable(t, "other", "V_0", "x")
}

func testVariableAudit(t *testing.T, b *variableBench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	value, next := domain.Secret("first-value"), domain.Secret("next-value")
	for n, step := range []struct {
		action string
		do     func() error
	}{
		{"create-variable", func() error {
			_, err := b.CreateVariable(ctx, domain.Variable{Account: account, Project: project, Branch: "a/b", Name: "TOKEN", Secret: true, Value: value})
			return err
		}},
		{"update-variable", func() error { _, err := b.UpdateVariable(ctx, ref("a/b", "TOKEN"), &next); return err }},
		{"delete-variable", func() error { return b.DeleteVariable(ctx, ref("a/b", "TOKEN")) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if told := b.Told(t, n); told != step.action+" project: branch: variable:" {
			t.Errorf("told %s", told)
		}
		names := []string{}
		entry := b.Audits(t, auditlog.AuditFilter{})[0]
		for _, r := range entry.Resources {
			names = append(names, r.Name)
		}
		want(t, "names", []string{project, "a/b", "TOKEN"}, names)
		if text := fmt.Sprintf("%+v", entry); strings.Contains(text, "value") {
			t.Errorf("told a value: %s", text)
		}
	}
	if err := b.DeleteVariable(ctx, ref("a/b", "TOKEN")); err == nil || len(b.Audits(t, auditlog.AuditFilter{})) != 3 {
		t.Errorf("told of what failed: %v", err)
	}
}

// TestSealedVariables looks beneath the store: no value lies there in clear, secret or not.
func TestSealedVariables(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		keys, err := seal.Parse(seal.Generate())
		if err != nil {
			t.Fatal(err)
		}
		s := deployments.New(d.Open(t, store.Options{Keys: keys}))
		for _, v := range []domain.Variable{{Name: "A", Secret: true, Value: "hush-hush"}, {Name: "B", Value: "hush-hush"}} {
			v.Account, v.Project, v.Branch = account, project, "main"
			if _, err := s.CreateVariable(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"A", "B"} {
			var sealed []byte
			if err := d.Beneath(t).QueryRowContext(t.Context(), "SELECT sealed FROM gateway_variables WHERE name = $1", name).Scan(&sealed); err != nil {
				t.Fatal(err)
			}
			if len(sealed) == 0 || bytes.Contains(sealed, []byte("hush")) || strings.Contains(hex.EncodeToString(sealed), hex.EncodeToString([]byte("hush"))) {
				t.Errorf("%s lies in clear", name)
			}
		}
	})
}
