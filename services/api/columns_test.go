package api_test

import (
	"net/http"
	"testing"

	"waybill.dev/services/api"
)

// The migrations of the next version add columns while this version still runs. No page fails then,
// though the API has read its tables before.
func TestColumnsAreAdded(t *testing.T) {
	t.Parallel()
	w := &walker{rig: newRig(t, shared.Postgres(t))}
	things, admin := w.things(), w.browser().signIn(adminKey)
	walk := func(each func(path string, p shown)) {
		for _, module := range api.ConsoleModules() {
			for _, route := range module.Routes {
				if route.Method == http.MethodGet {
					path := things.Replace(route.Path)
					each(path, admin.get(path))
				}
			}
		}
	}
	before := map[string]int{}
	walk(func(path string, p shown) { before[path] = p.status })
	writing, _ := w.store.Handles()
	if _, err := writing.ExecContext(t.Context(), `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT c.oid::regclass FROM pg_class c WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace LOOP
			EXECUTE 'ALTER TABLE ' || name || ' ADD COLUMN later text';
		END LOOP; END $$`); err != nil {
		t.Fatal(err)
	}
	walk(func(path string, p shown) {
		if p.status != before[path] {
			t.Errorf("%s: %d, before the columns were added %d", path, p.status, before[path])
		}
	})
}
