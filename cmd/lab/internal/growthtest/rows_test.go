package growthtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"text/template"
	"time"

	"waybill.dev/shared/domain"
)

// size is how large a database is. Everything in it grows alike: Of and Per of the templates below are
// rows of the database with 1,000,000, and the small one has a hundredth of them. All lie in one account,
// bucket, deployment and shipment; thousand other accounts have a little of everything. Spread: the account has as much as
// in the small database, and the other accounts have all the rest.
type size struct {
	rows   int
	spread bool
}

const (
	small = 10_000
	large = 1_000_000
)

// names of the things that the tests ask for. They are in both databases.
const (
	webhook    = "00000000-0000-7000-8000-000000000001"
	event      = "evt_00000001"
	shipment   = "shp-1"
	bucket     = "bucket-1"
	consumer   = "consumer-1"
	deployment = "project-1-main-0000000001"
	secret     = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
)

// inserts fill a migrated database. They are templates: {{rows N}} counts up from n = 1, and the other
// functions are what the two dialects say in different ways.
const inserts = `
CREATE TABLE ticks (n bigint PRIMARY KEY, ms bigint NOT NULL, delivery text NOT NULL);
INSERT INTO ticks SELECT n, ms, {{deliveryid "ms" "n"}} FROM (SELECT n, {{now}} - {{days 4}} + n * ({{days 4}} - 60000) / {{of 300000}} AS ms FROM {{rows 300000}}) AS spread;

INSERT INTO accounts (id, name, created_at) SELECT 'acct_' || {{pad "n" 22}}, 'tenant-' || n, {{at "n"}} FROM {{rows 1000}};
INSERT INTO projects (id, account, name, created_at) SELECT 'prj_' || {{pad "n" 22}}, {{owner "n"}}, 'project-' || n, {{at "n"}} FROM {{rows 10000}};
INSERT INTO projects (id, account, name, created_at) SELECT 'prj_t' || {{pad "n" 21}}, 'tenant-' || n, 'project-1', {{at "n"}} FROM {{rows 1000}};
INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at)
SELECT 'bckt_' || {{pad "n" 22}}, {{owner "n"}}, 'bucket-' || n, '', '', {{yes}}, {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at)
SELECT 'bckt_t' || {{pad "n" 21}}, 'tenant-' || n, 'bucket-1', '', '', {{yes}}, {{at "n"}}, {{at "n"}} FROM {{rows 1000}};
INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at)
SELECT 'cnsm_' || {{pad "n" 22}}, {{shop "n"}}, 'consumer-' || n, '', '', '', 'admin', {{at "n"}}, {{at "n"}} FROM {{rows 20000}};
INSERT INTO api_keys (id, consumer_id, description, expires_at, suffix, hash, created_at, updated_at)
SELECT 'key_' || {{pad "n" 22}}, 'cnsm_' || {{pad (print "CASE WHEN n % 2 = 0 AND " (owned "n") " THEN 1 ELSE n END") 22}}, '', CASE WHEN n % 4 = 0 THEN {{at (print now " + n * 1000 + 86400000")}} END, 'abcdef', {{bytes "'hash' || n"}}, {{at "n"}}, {{at "n"}} FROM {{rows 20000}};
INSERT INTO key_managers (id, consumer_id, email, sub, created_at)
SELECT 'mngr_' || {{pad "n" 22}}, 'cnsm_' || {{pad "CASE WHEN n <= 90 THEN 1 ELSE n END" 22}}, 'm' || n || '@example.com', 'sub-' || n, {{at "n"}} FROM {{rows 20000}};
INSERT INTO account_counts (account, kind, n, counted_at)
SELECT account, 'projects', count(*), {{at now}} FROM projects GROUP BY account UNION ALL SELECT account, 'buckets', count(*), {{at now}} FROM key_buckets GROUP BY account
UNION ALL SELECT b.account, 'consumers', count(*), {{at now}} FROM key_consumers c JOIN key_buckets b ON b.id = c.bucket_id GROUP BY b.account
UNION ALL SELECT b.account, 'keys', count(*), {{at now}} FROM api_keys p JOIN key_consumers c ON c.id = p.consumer_id JOIN key_buckets b ON b.id = c.bucket_id GROUP BY b.account
UNION ALL SELECT b.account, 'managers', count(*), {{at now}} FROM key_managers p JOIN key_consumers c ON c.id = p.consumer_id JOIN key_buckets b ON b.id = c.bucket_id GROUP BY b.account;
INSERT INTO audit_log (id, at, account, action, sub, type, key_id, request_id, address, user_agent, method, route, resources, success, error, counted)
SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}}, {{at (print now " - 1000 * (" (of 100000) " - n) - 1000")}}, {{owner "n"}}, CASE WHEN n % 10 = 0 THEN 'create-webhook' ELSE 'update-webhook' END,
	'sub-' || (n % 50), 'key', 'key_' || {{pad "n" 22}}, 'req-' || n, '192.0.2.1', 'curl', 'POST', '/v1/webhooks', '[{"type":"webhook","id":"' || n || '"}]', CASE WHEN n % 10 = 1 THEN {{no}} ELSE {{yes}} END, '', CASE WHEN n > {{of 99000}} THEN {{no}} ELSE {{yes}} END FROM {{rows 100000}};
INSERT INTO audit_days (account, day, action, sub, success, entries) SELECT account, {{dayof "at"}}, action, sub, success, count(*) FROM audit_log WHERE counted GROUP BY 1, 2, 3, 4, 5;
INSERT INTO console_sessions (id, hash, kind, account, key_id, manager_id, proof, person, created_at, seen_at, expires_at, address, user_agent)
SELECT 'sess_' || {{pad "n" 22}}, {{bytes "'session' || n"}}, 'session', {{owner "n"}}, 'key_' || {{pad "n" 22}}, '', '', '', {{at now}}, {{at now}}, {{at (print now " + 3600000 + n")}}, '', '' FROM {{rows 10000}};

INSERT INTO webhooks (id, account, url, events, active, description, secret, timeout_ms, max_in_flight, created_at, updated_at, version, activated_version, deleted, previous_secret, previous_secret_expires_at, auth_expires_at, consumer_id)
SELECT '00000000-0000-7000-8000-' || {{pad "n" 12}}, {{owner "n"}}, 'http://127.0.0.1:9/hook', CASE WHEN n = 1 THEN 'shipment.delivered' ELSE 'shipment.created' END, CASE WHEN n % 10 = 9 THEN {{no}} ELSE {{yes}} END, '', {{bytes "'s` + secret + `'"}}, 15000, 0, {{at "n"}}, {{at "n"}}, n + 1, n + 1, {{no}},
	CASE WHEN n % 4 = 0 THEN {{bytes "'s` + secret + `'"}} END, CASE WHEN n % 4 = 0 THEN {{at (print now " + 86400000 + n * 1000")}} END, CASE WHEN n % 4 = 1 THEN {{at (print now " + 86400000 + n * 1000")}} END, 'cnsm_' || {{pad "CASE WHEN n % 2 = 1 THEN 1 ELSE n END" 22}} FROM {{rows 9000}};
INSERT INTO webhooks (id, account, url, events, active, description, secret, timeout_ms, max_in_flight, created_at, updated_at, version, activated_version, deleted)
SELECT '00000000-0000-7000-8001-' || {{pad "n" 12}}, 'tenant-' || n, 'http://127.0.0.1:9/hook', 'shipment.created', {{yes}}, '', {{bytes "'s` + secret + `'"}}, 15000, 0, {{at "n"}}, {{at "n"}}, 1, 1, {{no}} FROM {{rows 1000}};
INSERT INTO webhook_counts (account, webhooks) SELECT account, count(*) FROM webhooks GROUP BY account;
UPDATE config_version SET version = (SELECT max(version) FROM webhooks);
INSERT INTO webhook_health (webhook_id, disabled_version, disabled_reason, disabled_at, updated_at, certificate_expires_at, disabled_until)
SELECT id, CASE WHEN version % 10 = 5 THEN version ELSE 0 END, CASE WHEN version % 10 = 5 THEN 'quota' ELSE '' END, CASE WHEN version % 10 = 5 THEN {{at now}} END, {{at now}}, CASE WHEN version % 4 = 3 THEN {{at (print now " + 86400000 + version * 1000")}} END,
	CASE WHEN version % 10 = 5 THEN {{at (print now " + 86400000")}} END FROM webhooks WHERE substr(id, 20, 4) = '8000';
INSERT INTO webhook_circuits (webhook_id, open_since, failures, failing_since, said_at, answer_class, answer_status, answer_body) SELECT id, NULL, 0, NULL, {{at now}}, '', 0, '' FROM webhooks WHERE substr(id, 20, 4) = '8000';
INSERT INTO webhook_acknowledgements (webhook_id, cause, sub, at) SELECT id, 'manual', 'sub', {{at now}} FROM webhooks WHERE substr(id, 20, 4) = '8000';
INSERT INTO webhook_cursors (webhook_id, name, account, cursor, updated_at) SELECT '00000000-0000-7000-8000-' || {{pad "1 + n / 91" 12}}, 'cursor-' || n, {{owner "1 + n / 91"}}, '', {{at "n"}} FROM {{rows 10000}};

INSERT INTO events (day, account, id, type, occurred_at, payload, received_at, shipment, xact, place)
SELECT {{day "ms"}}, {{owner "n"}}, 'evt_' || {{pad "n" 8}}, CASE n % 4 WHEN 1 THEN 'shipment.created' WHEN 2 THEN 'shipment.in_transit' WHEN 3 THEN 'shipment.delivered' ELSE 'shipment.exception' END, '2026-01-02T03:04:05Z',
	{{bytes (print "'{\"id\":\"evt_' || " (pad "n" 8) " || '\",\"type\":\"shipment.created\",\"timestamp\":\"2026-01-02T03:04:05Z\",\"data\":{\"shipmentId\":\"shp-1\"}}'")}}, {{at "ms"}}, {{shipmentof "n"}}, 1 + n * 500 / {{of 300000}}, n % 600 FROM ticks;
UPDATE feed_order SET xact = 501;
INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, run_started_at, next_attempt_at, in_lane, reason, test, updated_at,
	attempt_id, attempt_number, attempt_started_at, attempt_us, attempt_status, attempt_error, attempt_body, last_class, last_status, attempt_class)
SELECT {{day "ms"}}, delivery, {{owner "n"}}, {{hook "n"}}, 'evt_' || {{pad "n" 8}},
	CASE n % 4 WHEN 1 THEN 'shipment.created' WHEN 2 THEN 'shipment.in_transit' WHEN 3 THEN 'shipment.delivered' ELSE 'shipment.exception' END,
	CASE WHEN n % 20 = 0 THEN 'retrying' WHEN n % 20 = 1 THEN 'held' WHEN n % 20 < 4 THEN 'failed' ELSE 'delivered' END,
	2, 1, 1, {{at "ms"}}, CASE WHEN n % 20 = 0 THEN {{at (print now " + 3600000 + n")}} END, CASE WHEN n % 20 = 1 THEN {{yes}} ELSE {{no}} END,
	CASE WHEN n % 20 = 1 THEN 'webhookInactive' WHEN n % 20 BETWEEN 2 AND 3 THEN 'scheduleExhausted' ELSE '' END, CASE WHEN n % 100 = 50 THEN {{yes}} ELSE {{no}} END, {{at "ms + 20"}},
	delivery, 1, {{at "ms"}}, 20000, CASE WHEN n % 20 < 4 THEN 500 ELSE 200 END, '', '', CASE WHEN n % 20 < 4 THEN 'http_5xx' END, CASE WHEN n % 20 < 4 THEN 500 END, CASE WHEN n % 20 < 4 THEN 'http_5xx' END FROM ticks;
INSERT INTO attempts (day, delivery_id, id, number, started_at, duration_us, status, error, body, class)
SELECT {{day "ms"}}, delivery, '1' || substr(delivery, 2), 2, {{at "ms"}}, 20000, 500, '', '', 'http_5xx' FROM ticks WHERE n % 20 < 4;
INSERT INTO outbox (received_at, account, id, version, relayed_at, relayed) SELECT {{at "ms"}}, {{owner "n"}}, 'evt_' || {{pad "n" 8}}, 1, {{at now}}, 1 FROM ticks WHERE n % 30 = 7;
INSERT INTO requests (id, kind, account, webhook_id, event_id, event_type, day, delivery_id, test, created_at, relayed_at)
SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}} || '-' || delivery, 'retry', {{owner "n"}}, CASE WHEN {{owned "n"}} THEN '` + webhook + `' ELSE {{hook "n"}} END, 'evt_' || {{pad "n" 8}}, 'shipment.created', {{day "ms"}}, delivery, {{no}}, {{at now}}, {{at now}} FROM ticks WHERE n % 40 = 3;
INSERT INTO jobs (id, account, kind, filter, created_by, created_at, as_of, matched, sent, delivered, failed, cursor, last_id, all_sent, cancelled, advanced_at)
SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}}, {{owner "n"}}, 'retry', '{}', 'sub', {{at now}}, {{at now}}, 10, 10, 5, 5, '', '', {{yes}}, {{no}}, {{at now}} FROM {{rows 10000}};
INSERT INTO job_deliveries (delivery_id, job_id, day, rev) SELECT delivery, '01900000-0000-7000-8000-' || {{pad "1" 12}}, {{day "ms"}}, 2 FROM ticks WHERE n % 40 = 3;
INSERT INTO idempotency_keys (account, path, key, body_hash, status, created_at) SELECT {{owner "n"}}, '/v1/events', {{bytes "'key' || n"}}, {{bytes "'hash'"}}, 202, {{at now}} FROM {{rows 10000}};
INSERT INTO rollups (account, webhook_id, step, start, event_type, class, events, deliveries, attempts, last_at, latency)
SELECT {{owner "n / 4 + 1"}}, '00000000-0000-7000-8000-' || {{pad "n / 4 + 1" 12}}, 60, {{at (print "(" now " / 3600000 - n % 4) * 3600000")}}, 'shipment.created', 'ok', 0, 5, 5, {{at now}}, {{hex "00"}} FROM {{rows 40000}};
INSERT INTO rollups (account, webhook_id, step, start, event_type, class, events, deliveries, attempts, last_at, latency)
SELECT 'default', '', 60, {{at (print "(" now " / 3600000 - n) * 3600000")}}, 'shipment.created', 'ok', 0, 5, 5, {{at now}}, {{hex "00"}} FROM {{always 96}};
INSERT INTO webhook_sequences (webhook_id, shipment, sequence, missed, updated_at) SELECT '` + webhook + `', n, 1, 0, {{at now}} FROM {{rows 10000}};
INSERT INTO signing_keys (id, account, public_key, private_key, created_at, expires_at) SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}}, 'tenant-' || n, {{bytes "'01234567890123456789012345678901'"}}, {{bytes "'s'"}}, {{at "n"}}, {{at (print now " + 86400000")}} FROM {{rows 1000}};

INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number, version, created_at, created_by, updated_at)
SELECT 'project-1-main-' || {{pad "n" 10}}, {{owner "n"}}, 'project-1', 'branch-' || n, 'PREVIEW', 'STARTED', '', '', 0, 1, n + 1, {{at "n"}}, 'sub', {{at "n"}} FROM {{rows 9000}};
UPDATE gateway_deployments SET branch = 'main' WHERE name = '` + deployment + `';
INSERT INTO gateway_builds (id, status_id, deployment, account, project, branch, number, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, finished_at, routes, steps, faults, log)
SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}}, '01900000-0000-7000-8001-' || {{pad "n" 12}}, CASE WHEN n <= 20 THEN '` + deployment + `' ELSE 'project-1-main-' || {{pad (print "1 + n % " (of 9000)) 10}} END, {{owner "n"}}, 'project-1', 'main', n, '01900000-0000-7000-8000-' || {{pad "n" 12}}, 'PREVIEW', 'SUCCESS', {{at "n"}}, 'sub', '', '', 1, '', {{at "n"}}, 1, '[]', '[]', '[]' FROM {{rows 20000}};
INSERT INTO gateway_sources (id, account, project, branch, deployment, format, size, archive, created_at, created_by, created_key, uploaded_at)
SELECT '01900000-0000-7000-8000-' || {{pad "n" 12}}, {{owner "n"}}, 'project-1', 'main', {{site "n"}}, 'zip', 3, {{bytes "'zip'"}}, {{at now}}, 'sub', '', {{at now}} FROM {{rows 10000}};
UPDATE gateway_version SET version = (SELECT max(version) FROM gateway_deployments);
INSERT INTO gateway_variables (account, project, branch, name, secret, sealed, created_at, updated_at) SELECT {{owner "n"}}, 'project-1', 'branch-' || n, 'NAME', {{no}}, {{bytes "'svalue'"}}, {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO gateway_calls (deployment, step, start, consumer, status, calls, micros)
SELECT {{site "n"}}, 60, {{at (print "(" now " / 3600000 - n % 96) * 3600000")}}, 'consumer-' || (n / 96), 200, 5, 500 FROM {{rows 40000}};
INSERT INTO gateway_requests (deployment, at, id, request_id, client_request_id, build_id, method, host, path, route_path, status, micros, consumer, severity, network, bytes_in, bytes_out, back_end_host, back_end_status, back_end_micros, mcp_method, mcp_tool, entry_count, entries, messages, truncated)
SELECT {{site "n"}}, {{at (print now " - 7200000 + n * 7000000 / " (of 200000))}}, n, 'req-' || n, '', '', CASE WHEN n % 1000 = 0 THEN 'POST' ELSE 'GET' END, 'example.com', '/a', CASE WHEN n % 1000 = 1 THEN '/rare' ELSE '/a' END, CASE WHEN n % 1000 = 2 THEN 500 ELSE 200 END, 100, CASE WHEN n % 1000 = 3 THEN 'consumer-2' ELSE 'consumer-1' END,
	CASE WHEN n % 1000 = 2 THEN 'error' ELSE 'info' END, '192.0.2.0/24', 1, 1, '', 0, 0, '', '', 1, '', '', {{no}} FROM {{rows 200000}};
INSERT INTO gateway_tunnels (id, account, name, token_suffix, services, operation, version, created_at, updated_at) SELECT 'tnl_' || {{pad "n" 22}}, CASE WHEN n <= 90 THEN 'default' ELSE {{tenant "n"}} END, 'tunnel-' || n, 'abcd', '', '', n + 1, {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO gateway_tunnel_tokens (hash, tunnel_id, created_at) SELECT {{bytes "'token' || n"}}, 'tnl_' || {{pad "n" 22}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO gateway_tunnel_operations (id, account, tunnel_id, kind, status, message, details, document, created_at, finished_at) SELECT 'op-' || n, {{owner "n"}}, 'tnl_' || {{pad (print "CASE WHEN " (owned "n") " THEN 1 ELSE n END") 22}}, 'provisioning', 'success', '', '', '', {{at now}}, {{at now}} FROM {{rows 10000}};
INSERT INTO gateway_domains (id, account, hostname, deployment, is_default, token, answers, version, created_by, created_key, created_at, updated_at, verified_at, checked_at, proven_at, next_check_at, notice_at)
SELECT 'dom_' || {{pad "n" 22}}, CASE WHEN n <= 90 THEN 'default' ELSE {{tenant "n"}} END, 'h' || n || '.example.com', '` + deployment + `', {{no}}, 'token', '', n + 1, 'sub', '', {{at "n"}}, {{at "n"}}, {{at "n"}}, {{at now}}, {{at "n"}}, CASE WHEN n <= 3 THEN {{at now}} ELSE {{at (print now " + 86400000")}} END, CASE WHEN n % 5 = 0 THEN {{at now}} END FROM {{rows 10000}};
INSERT INTO gateway_domain_certificates (domain_id, chain, private_key, fingerprint, not_after, created_at) SELECT 'dom_' || {{pad "n" 22}}, '', {{bytes "'s'"}}, '', {{at (print now " + 86400000 + n * 1000")}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO gateway_acme_states (hostname, not_after, error, failures, updated_at) SELECT 'h' || n || '.example.com', {{at (print now " + 86400000 + n * 1000")}}, '', 0, {{at now}} FROM {{rows 10000}};
INSERT INTO gateway_client_cas (id, account, name, certificate, expires_at, version, created_at, updated_at) SELECT 'ca_' || {{pad "n" 22}}, CASE WHEN n <= 90 THEN 'default' ELSE {{tenant "n"}} END, 'ca-' || n, {{hex authority}}, {{at (print now " + 86400000 + n * 1000")}}, n + 1, {{at "n"}}, {{at "n"}} FROM {{rows 10000}};

INSERT INTO meters (id, bucket_id, slug, name, description, metadata, aggregation, event_type, value_property, group_by, created_at, updated_at)
SELECT 'mtr_' || {{pad "n" 22}}, 'bckt_' || {{pad "1 + n / 91" 22}}, 'meter_' || n, 'meter', '', '', 'COUNT', CASE WHEN n = 1 THEN '` + domain.EventDeliveries + `' ELSE 'type-' || n END, '', '', {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO features (id, bucket_id, key, name, meter_id, filters, metadata, created_at, updated_at)
SELECT 'ftr_' || {{pad "n" 22}}, 'bckt_' || {{pad "1 + n / 91" 22}}, 'feature_' || n, 'feature', 'mtr_' || {{pad "n" 22}}, '', '', {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO plans (id, bucket_id, key, version, name, description, metadata, currency, billing_cadence, status, alignment, pro_rating, phases, created_at, updated_at)
SELECT 'pln_' || {{pad "n" 22}}, 'bckt_' || {{pad "1 + n / 91" 22}}, 'plan_' || n, 1, 'plan', '', '', 'USD', 'P1M', 'draft', '', '', '[]', {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO subscriptions (consumer_id, plan_id, anchor_at, since_at, created_at, updated_at) SELECT 'cnsm_' || {{pad "n" 22}}, 'pln_' || {{pad "1" 22}}, {{at "0"}}, {{at "0"}}, {{at "n"}}, {{at "n"}} FROM {{rows 10000}};
INSERT INTO meter_hours (bucket_id, consumer_id, event_type, hour, deployment, route, method, status, count, sum)
SELECT {{shop "n / 4 + 1"}}, 'cnsm_' || {{pad "n / 4 + 1" 22}}, '` + domain.EventDeliveries + `', {{at (print "(" now " / 3600000 - n % 4) * 3600000")}}, '', '', '', '', 5, 5 FROM {{rows 40000}};
DROP TABLE ticks;
`

// of is how many there are of n in the database of 1,000,000.
func (s size) of(n int) int { return max(1, n/(large/s.rows)) }

// owned is the SQL of whether the row n is the account's own: all, or those that the small database has.
func (s size) owned(n string) string {
	if !s.spread {
		return "1 = 1"
	}
	return fmt.Sprintf("(%[1]s <= 100 OR (%[1]s > 10000 AND (%[1]s - 1) / 40 %% 100 = 0))", "("+n+")")
}

// choose is the SQL of what the row n has if it is the account's own, or else.
func (s size) choose(n, own, other string) string {
	if !s.spread {
		return own
	}
	return "CASE WHEN " + s.owned(n) + " THEN " + own + " ELSE " + other + " END"
}

// neighbour is the SQL of the number of the other account that the row n belongs to.
func neighbour(n string) string { return "(1 + (" + n + ") % 1000)" }

// script returns the statements that fill a database of this size, as its dialect has them.
func (s size) script(postgres bool, now time.Time) ([]string, error) {
	say := func(sqlite, pg string, args ...any) string {
		if postgres {
			return fmt.Sprintf(pg, args...)
		}
		return fmt.Sprintf(sqlite, args...)
	}
	pad := func(n string, width int) string {
		return say("printf('%%0%[2]dd', %[1]s)", "lpad((%s)::text, %d, '0')", n, width)
	}
	of := s.of
	count := func(n int) string {
		return say("(WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < %d) SELECT n FROM up) AS up", "generate_series(1, %d::bigint) AS up(n)", n)
	}
	authority, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	functions := template.FuncMap{
		"of":     of,
		"rows":   func(n int) string { return count(of(n)) },
		"always": count,
		"now":    func() string { return strconv.FormatInt(now.UnixMilli(), 10) },
		"days":   func(n int) int { return n * 86_400_000 },
		"at":     func(ms string) string { return say("((%s) * 1000)", "to_timestamp((%s) / 1000.0)", ms) },
		"day": func(ms string) string {
			return say("((%s) / 86400000)", "(to_timestamp((%s) / 1000.0) AT TIME ZONE 'UTC')::date", ms)
		},
		"dayof":     func(at string) string { return say("%s / 86400000000", "(%s AT TIME ZONE 'UTC')::date", at) },
		"pad":       pad,
		"bytes":     func(text string) string { return say("CAST(%s AS blob)", "convert_to(%s, 'UTF8')", text) },
		"hex":       func(text string) string { return say("X'%s'", `'\x%s'::bytea`, text) },
		"tenant":    func(n string) string { return fmt.Sprintf("'tenant-' || (1 + %s %% %d)", n, of(1000)) },
		"authority": func() string { return hex.EncodeToString(authority) },
		"yes":       func() string { return say("1", "true") },
		"no":        func() string { return say("0", "false") },
		"owned":     s.owned,
		"owner":     func(n string) string { return s.choose(n, "'default'", "'tenant-' || "+neighbour(n)) },
		"shop": func(n string) string {
			return s.choose(n, "'bckt_' || "+pad("1", 22), "'bckt_t' || "+pad(neighbour(n), 21))
		},
		"site": func(n string) string {
			return s.choose(n, "'"+deployment+"'", "'project-1-main-' || "+pad("101 + "+n+" % 8000", 10))
		},
		"shipmentof": func(n string) string {
			return s.choose(n, strconv.FormatInt(domain.ShipmentKey(domain.DefaultAccount, shipment), 10), n)
		},
		"hook": func(n string) string {
			several := fmt.Sprintf("'00000000-0000-7000-8000-' || %s", pad(fmt.Sprintf("CASE WHEN %s %% 5 = 4 THEN 1 + %s %% %d ELSE 1 END", n, n, s.of(9000)), 12))
			if s.spread {
				several = "'" + webhook + "'"
			}
			return s.choose(n, several, "'00000000-0000-7000-8001-' || "+pad(neighbour(n), 12))
		},
		"deliveryid": func(ms, n string) string { return deliveryID(say, ms, n) },
	}
	parsed, err := template.New("inserts").Funcs(functions).Parse(inserts)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := parsed.Execute(&text, nil); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(strings.TrimSpace(text.String()), ";"), ";\n"), nil
}

// newAuthority returns the certificate of a CA.
func newAuthority(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Partners"}, NotBefore: now, NotAfter: now.AddDate(1, 0, 0),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
}

// deliveryID is the SQL of an id of the millisecond ms. It is 22 digits of base 62; the ninth counts a
// sixth of a millisecond, and what comes after it may be anything.
func deliveryID(say func(sqlite, pg string, args ...any) string, ms, n string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	const inMillisecond = "6.043766674668617" // 2^80 / 62^13
	var parts []string
	unit := 1
	for range 9 {
		parts = append([]string{fmt.Sprintf("substr('%s', CAST(at / %d %% 62 AS integer) + 1, 1)", digits, unit)}, parts...)
		unit *= 62
	}
	text := strings.Join(parts, " || ")
	return fmt.Sprintf("(SELECT %s || %s FROM (SELECT %s + 1 AS at) AS since)", text,
		say("printf('%%013d', %s)", "lpad((%s)::text, 13, '0')", n), say("CAST(%s * %s AS integer)", "floor(%s * %s)::bigint", ms, inMillisecond))
}
