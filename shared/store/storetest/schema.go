package storetest

import (
	"database/sql"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm/schema"

	"waybill.dev/shared/store"
)

// owners returns the owner of each table: the family that has its row struct. A migration that
// makes a table adds a line here.
//
//nolint:funlen // a list
func owners() map[string]string {
	return map[string]string{
		"log_floor":         "store",
		"feed_order":        "store",
		"accounts":          "accounts",
		"account_counts":    "counts",
		"audit_log":         "auditlog",
		"audit_days":        "auditlog",
		"config_version":    "pipeline",
		"webhooks":          "pipeline",
		"webhook_counts":    "pipeline",
		"webhook_health":    "pipeline",
		"events":            "pipeline",
		"outbox":            "pipeline",
		"requests":          "pipeline",
		"deliveries":        "pipeline",
		"attempts":          "pipeline",
		"idempotency_keys":  "pipeline",
		"bus_streams":       "pipeline",
		"jobs":              "pipeline",
		"job_deliveries":    "pipeline",
		"webhook_alerts":    "pipeline",
		"webhook_circuits":  "pipeline",
		"signing_keys":      "pipeline",
		"webhook_cursors":   "pipeline",
		"ordering_accounts": "pipeline",
		"ordering_starts":   "recorder",
		"webhook_sequences": "recorder",

		"webhook_acknowledgements": "pipeline",

		"rollup_deltas": "rollup", "rollups": "rollup",
		"projects":         "access",
		"key_buckets":      "access",
		"key_consumers":    "access",
		"api_keys":         "access",
		"key_managers":     "access",
		"console_sessions": "access",

		"gateway_version":     "deployments",
		"gateway_deployments": "deployments",
		"gateway_sources":     "deployments",
		"gateway_builds":      "deployments",
		"gateway_turns":       "deployments",
		"gateway_variables":   "deployments",

		"gateway_tunnels":             "tunnels",
		"gateway_tunnel_tokens":       "tunnels",
		"gateway_tunnel_connections":  "tunnels",
		"gateway_tunnel_operations":   "tunnels",
		"gateway_client_cas":          "clientcas",
		"gateway_domains":             "domains",
		"gateway_domain_certificates": "domains",
		"gateway_acme":                "domains",
		"gateway_acme_locks":          "domains",
		"gateway_acme_states":         "domains",

		"meters": "metering", "features": "metering", "plans": "metering", "subscriptions": "metering", "meter_hours": "metering",

		"gateway_calls":    "traffic",
		"gateway_not_kept": "traffic",
		"gateway_writers":  "traffic",
		"gateway_requests": "traffic",
	}
}

// Rows compares the row structs of a family with the columns of its tables, on both databases. rows
// must have a struct for each table of the family.
func Rows(t *testing.T, family string, rows ...any) {
	t.Helper()
	t.Parallel()
	columns := map[string][]string{}
	for _, row := range rows {
		parsed, err := schema.Parse(row, &sync.Map{}, schema.NamingStrategy{})
		if err != nil {
			t.Fatal(err)
		}
		columns[parsed.Table] = slices.Sorted(slices.Values(parsed.DBNames))
	}
	Each(t, func(t *testing.T, kind Kind) {
		d := kind.Fresh(t)
		d.Open(t, store.Options{})
		db := d.Beneath(t)
		live := map[string][]string{}
		for table, owner := range owners() {
			if owner == family {
				live[table] = Texts(t, db, kind.columns(), table)
			}
		}
		if diff := cmp.Diff(live, columns); diff != "" {
			t.Errorf("columns of %s (-tables +structs):\n%s", family, diff)
		}
	})
}

func (k Kind) columns() string {
	if k.postgres {
		return `SELECT column_name FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = $1 ORDER BY column_name`
	}
	return `SELECT name FROM pragma_table_info($1) ORDER BY name`
}

// Owned fails the test when a table has no owner, or an owner's table does not exist.
func Owned(t *testing.T, kind Kind, db *sql.DB) {
	t.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%' ORDER BY name`
	if kind.postgres {
		query = `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
			AND relkind IN ('r', 'p') AND NOT relispartition AND relname NOT LIKE 'goose%' ORDER BY relname`
	}
	var tables []string
	for table := range owners() {
		tables = append(tables, table)
	}
	slices.Sort(tables)
	if diff := cmp.Diff(Texts(t, db, query), tables); diff != "" {
		t.Errorf("tables (-there +owned):\n%s", diff)
	}
}

// Texts returns the texts of the one column that a query has.
func Texts(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
