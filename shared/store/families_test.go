package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
	"waybill.dev/shared/store/tunnels"
)

// TestFamiliesReadByIndexes looks at how SQLite carries out what gateways and the relay ask again and again, and the
// lists of large tables. None of it may read a whole table, and each list must come from the index of its filter.
func TestFamiliesReadByIndexes(t *testing.T) {
	t.Parallel()
	d := storetest.SQLite().Fresh(t)
	s := d.Open(t, store.Options{})
	db := d.Beneath(t)
	var mu sync.Mutex
	var asked []string
	storetest.EachStatement(t, s, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, text)
	})
	now := s.Now()
	calls, hosts, builds, ways := traffic.New(s), domains.New(s), deployments.New(s), tunnels.New(s)
	list := func(f traffic.RequestFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			f.Deployment, f.Limit = "shop", 20
			_, _, err := calls.ListRequests(ctx, f)
			return err
		}
	}
	route := "/orders"
	for name, one := range map[string]struct {
		run   func(context.Context) error
		index string // what the plans must have
	}{
		"abandoned builds":           {func(ctx context.Context) error { _, err := builds.FailAbandoned(ctx); return err }, "gateway_builds_leased"},
		"a build to make":            {func(ctx context.Context) error { _, err := builds.ClaimBuild(ctx); return err }, "gateway_builds_open"},
		"changed deployments":        {func(ctx context.Context) error { _, _, err := builds.Served(ctx, 7); return err }, "gateway_deployments_by_version"},
		"changed domains":            {func(ctx context.Context) error { _, _, err := hosts.ServedDomains(ctx, 7); return err }, "gateway_domains_by_version"},
		"domains that are due":       {func(ctx context.Context) error { _, err := hosts.ClaimChecks(ctx, 16); return err }, "gateway_domains_by_check"},
		"hostnames that are to pass": {func(ctx context.Context) error { _, err := hosts.CountExpiringDomains(ctx); return err }, "gateway_domains_noticed"},
		"changed tunnels":            {func(ctx context.Context) error { _, _, err := ways.ServedTunnels(ctx, 7); return err }, "gateway_tunnels_by_version"},
		"changed client CAs":         {func(ctx context.Context) error { _, _, err := clientcas.New(s).ServedClientCAs(ctx, 7); return err }, "gateway_client_cas_by_version"},
		"certificates that end":      {func(ctx context.Context) error { _, err := hosts.CountExpiringCertificates(ctx, now); return err }, "gateway_acme_states_by_end"},
		"client CAs that end": {func(ctx context.Context) error {
			_, err := clientcas.New(s).CountExpiringClientCAs(ctx, now)
			return err
		}, "gateway_client_cas_by_end"},
		"accounts": {func(ctx context.Context) error {
			_, _, err := accounts.New(s).ListAccounts(ctx, store.Page{Limit: 20})
			return err
		}, "accounts_by_age"},
		"deployments of an account": {func(ctx context.Context) error {
			_, _, err := builds.ListDeployments(ctx, deployments.Filter{Account: domain.DefaultAccount, Page: store.Page{Limit: 20}})
			return err
		}, "gateway_deployments_by_account"},
		"purge of deployments": {func(ctx context.Context) error { return builds.Purge(ctx, now) }, "gateway_deployments_removed"},
		"purge of domains":     {func(ctx context.Context) error { return hosts.Purge(ctx, now) }, "gateway_domains_removed"},
		"purge of tunnels":     {func(ctx context.Context) error { return ways.Purge(ctx, now) }, "gateway_tunnels_removed"},
		"purge of client CAs":  {func(ctx context.Context) error { return clientcas.New(s).PurgeClientCAs(ctx, now) }, "gateway_client_cas_removed"},
		"purge of meters":      {func(ctx context.Context) error { return metering.New(s).Purge(ctx, now) }, "meter_hours_by_age"},
		"audit log by action": {func(ctx context.Context) error {
			_, _, err := auditlog.New(s).ListAudit(ctx, auditlog.AuditFilter{Account: domain.DefaultAccount, Action: "create-key"})
			return err
		}, "audit_log_by_action"},
		"audit log by actor": {func(ctx context.Context) error {
			_, _, err := auditlog.New(s).ListAudit(ctx, auditlog.AuditFilter{Account: domain.DefaultAccount, Actor: "somebody"})
			return err
		}, "audit_log_by_actor"},
		"purge of audit log":   {func(ctx context.Context) error { return auditlog.New(s).Purge(ctx, now) }, "audit_log_by_age"},
		"purge of traffic":     {func(ctx context.Context) error { return calls.Maintain(ctx, time.Hour) }, "gateway_writers_by_age"},
		"requests by method":   {list(traffic.RequestFilter{Method: "POST"}), "gateway_requests_by_method"},
		"requests by class":    {list(traffic.RequestFilter{Class: 5}), "gateway_requests_by_class"},
		"requests by route":    {list(traffic.RequestFilter{RoutePath: &route}), "gateway_requests_by_route"},
		"requests by severity": {list(traffic.RequestFilter{Severity: domain.SeverityError}), "gateway_requests_by_severity"},
		"requests by consumer": {func(ctx context.Context) error {
			_, err := calls.RecentCalls(ctx, "shop", now, []string{"a", "b"}, 20)
			return err
		}, "gateway_requests_by_consumer"},
		"a request": {func(ctx context.Context) error {
			_, err := calls.GetRequest(ctx, "shop", "r")
			return ignore(err, domain.ErrNotFound)
		}, "gateway_requests_by_id"},
	} {
		asked = nil
		if err := one.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plans strings.Builder
		for _, statement := range asked {
			plan := strings.Join(planOf(t, db, statement), "\n")
			plans.WriteString(plan + "\n")
			if whole := wholeTable.FindString(plan); whole != "" {
				t.Errorf("%s: %s: %s", name, whole, statement)
			}
		}
		if !strings.Contains(plans.String(), one.index) {
			t.Errorf("%s: %s is not used:\n%s%s", name, one.index, strings.Join(asked, "\n"), plans.String())
		}
	}
}

// wholeTable matches the reading of a whole table in a plan. The index of what is open is as small as that.
var wholeTable = regexp.MustCompile(`SCAN (?:gateway_\w+|meter_hours|audit_log|[a-z])(?:$|\n| USING (?:COVERING )?INDEX (?:sqlite_autoindex|\w+_by_)\S*)`)

// planOf returns how SQLite carries a statement out.
func planOf(t *testing.T, db *sql.DB, statement string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// ignore returns err unless it is the other one.
func ignore(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// TestPurgeReadsTheOldEnd has Postgres plan a purge without knowing the time, as it does for statements that it keeps, of
// a table of which nothing is old. It may read no more than the beginning of an index.
func TestPurgeReadsTheOldEnd(t *testing.T) {
	t.Parallel()
	d := storetest.Postgres().Fresh(t)
	s := d.Open(t, store.Options{})
	db := d.Beneath(t)
	for _, statement := range []string{
		`INSERT INTO gateway_calls (deployment, step, start, consumer, status, calls, micros)
			SELECT 'shop', 1, now() + n / 100 * interval '1 minute', 'c' || n % 100, 200, 1, 1 FROM generate_series(1, 50000) n`,
		"VACUUM ANALYZE gateway_calls",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var purge string
	storetest.EachStatement(t, s, func(text string) {
		if strings.HasPrefix(text, "DELETE FROM gateway_calls ") && strings.Contains(text, "step = 1 ") {
			purge = text
		}
	})
	if err := traffic.New(s).Maintain(t.Context(), time.Hour); err != nil || purge == "" {
		t.Fatalf("%q, %v", purge, err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE purge AS " + purge} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	if err := conn.QueryRowContext(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE purge ('2020-01-01', 1000)").Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if buffers := plans[0].Plan.Hit + plans[0].Plan.Read; buffers > 20 {
		t.Errorf("%d buffers are read to find nothing: %s", buffers, text)
	}
}
