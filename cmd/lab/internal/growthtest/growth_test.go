package growthtest

import (
	"testing"

	"waybill.dev/services/api"
)

// each runs a test for both databases.
func each(t *testing.T, test func(t *testing.T, dialect string, p *trio)) {
	t.Helper()
	if err := databases(); err != nil {
		t.Fatalf("fill the databases: %v", err)
	}
	t.Run("sqlite", func(t *testing.T) {
		test(t, "sqlite", &made.sqlite)
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, "postgres", &made.postgres)
	})
}

// Each operation of the API does as much on the large database as on the small one, and as much if other accounts have
// the rest.
func TestOperations(t *testing.T) {
	each(t, func(t *testing.T, dialect string, p *trio) {
		few, many, beside := newRig(t, &p.small), newRig(t, &p.large), newRig(t, &p.spread)
		known := operations(few.deliveries)
		w := newWatch(t, dialect)
		for _, route := range api.Routes() {
			calls := known[route.Operation]
			delete(known, route.Operation)
			if len(calls) == 0 && !route.Stream {
				t.Errorf("the operation %s has no row in operations: how is it called?", route.Operation)
			}
			for i := range calls {
				if calls[i].elsewhere {
					continue
				}
				ofFew, ofMany := operations(few.deliveries)[route.Operation][i], operations(many.deliveries)[route.Operation][i]
				a, b := ask(&route, ofFew, names(few.deliveries)), ask(&route, ofMany, names(many.deliveries))
				one, other := few.do(t, a.method, a.target, a.body), many.do(t, b.method, b.target, b.body)
				if !a.well(one.status) {
					t.Errorf("%s (%s %s): answered %d, want %v\n%.300s", a.name, a.method, a.target, one.status, a.good, one.body)
				}
				if !a.well(other.status) {
					w.late(a.name, other.status)
				}
				w.compare(a.name, one.did, other.did)
				c := ask(&route, operations(beside.deliveries)[route.Operation][i], names(beside.deliveries))
				w.beside(a.name, one.did, beside.do(t, c.method, c.target, c.body).did)
			}
		}
		for name := range known {
			t.Errorf("there is no operation %s", name)
		}
		w.end()
	})
}
