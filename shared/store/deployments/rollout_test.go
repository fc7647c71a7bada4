package deployments_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
)

func deployed(project string) deploymentstest.Deployment {
	return deploymentstest.Deployment{
		Account: domain.DefaultAccount, Project: project, Branch: "main", Format: "zip", Archive: []byte("PK of " + project),
		Variables: map[string]string{"TOKEN": "canary"},
	}
}

func opened(t *testing.T, kind storetest.Kind) (*store.Store, *deployments.Deployments) {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	db := kind.Fresh(t).Open(t, store.Options{Keys: keys})
	return db, deployments.New(db)
}

// A gateway learns of every change once, of removals too, and from the beginning of what is
// there.
func TestServed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		db, d := opened(t, kind)
		since := int64(0)
		learns := func(want ...deployments.ServedDeployment) {
			t.Helper()
			got, version, err := d.Served(t.Context(), since)
			now, versionErr := d.GatewayVersion(t.Context())
			if err != nil || versionErr != nil || version != now {
				t.Fatalf("version %d, %v; it is %d, %v", version, err, now, versionErr)
			}
			since = version
			slices.SortFunc(got, func(a, b deployments.ServedDeployment) int { return strings.Compare(a.Name, b.Name) })
			if !slices.Equal(got, want) {
				t.Errorf("learns %+v, want %+v", got, want)
			}
		}
		learns()
		a, b := deployed("a"), deployed("b")
		a.Set(t, db, domain.DeploymentBuilding)
		first := b.Activate(t, db)
		learns(deployments.ServedDeployment{Name: a.Name(), Account: a.Account, State: domain.DeploymentBuilding}, deployments.ServedDeployment{Name: b.Name(), Account: b.Account, State: domain.DeploymentStarted, ActiveBuild: first})
		learns()
		second := b.Activate(t, db)
		learns(deployments.ServedDeployment{Name: b.Name(), Account: b.Account, State: domain.DeploymentStarted, ActiveBuild: second})
		b.Remove(t, db)
		a.Set(t, db, domain.DeploymentErrored)
		learns(deployments.ServedDeployment{Name: a.Name(), Account: a.Account, State: domain.DeploymentErrored}, deployments.ServedDeployment{Name: b.Name(), Account: b.Account, State: domain.DeploymentStarted, Removed: true})
		since = 0
		learns(deployments.ServedDeployment{Name: a.Name(), Account: a.Account, State: domain.DeploymentErrored})
	})
}

// A table is made of what its build was made of.
func TestSource(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		db, d := opened(t, kind)
		a, b := deployed("a"), deployed("b")
		build := a.Activate(t, db)
		b.Activate(t, db)
		got, err := d.Source(t.Context(), a.Name(), build)
		if err != nil || !bytes.Equal(got.Archive, a.Archive) || got.Format != "zip" || got.Variables["TOKEN"].Reveal() != "canary" ||
			got.Build.ID != build || got.Build.Account != "default" || got.Build.Project != "a" || got.Build.Branch != "main" || got.Build.Number != 1 || got.Build.EnvironmentType != domain.Production {
			t.Errorf("%+v, %v", got, err)
		}
		for name, build := range map[string]string{a.Name(): "none", b.Name(): build} {
			if _, err := d.Source(t.Context(), name, build); !errors.Is(err, domain.ErrNotFound) {
				t.Errorf("a build that is not of %s: %v", name, err)
			}
		}
	})
}
