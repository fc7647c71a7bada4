package growthtest

import (
	"regexp"
	"strings"
)

// law says which statements may do more on the large database.
type law struct {
	of   *regexp.Regexp // the statement, as it is printed
	most int64          // what one of them may do on the large database; 0: as much as there is of what why says
	why  string         // ends with what bounds it
}

// on makes a law of a part of a statement, in which @ is a value.
func on(part string, most int64, why string) law {
	return law{regexp.MustCompile(strings.ReplaceAll(part, "@", `(?:\?|…|\d+|'[^']*')`)), most, why}
}

// laws are the statements that may do more on the large database, and why. What may do more has a bound where
// there is one: it holds for the large database of the test, in steps of SQLite, which are more than the buffers of Postgres.
var laws = []law{
	// What a process reads once.
	on(`FROM webhooks WHERE (NOT deleted|version > \?)( ORDER BY .*)?$`, 0, "n webhooks, which a dispatcher reads once, at its start"),
	on(`FROM webhook_health( WHERE updated_at >= \?)?$`, 0, "n webhooks, which a dispatcher reads once, at its start; then what changed in the last seconds"),
	on(`FROM gateway_sources WHERE size > 0$`, 0, "n archives, which the leading API counts once an hour, for a gauge"),
	on(`FROM gateway_sources WHERE account = @ AND size > 0$`, 0, "the archives of an account, at most 200,000, until its first change of them makes its row in account_counts"),
	on(`^INSERT INTO deliveries AS d `, 1000, "the second outcome of a delivery, which comes or does not come while the services live"),
	on(`^SELECT webhook_id, min\(id\) AS id FROM \(SELECT w.id AS webhook_id, `, 100_000, "the webhooks of the page for which something waits: for each, six looks into the index of each day"),
	on(`^INSERT INTO account_counts`, 0, "what an account has of a kind, once, with the first change of it"),
	on(`^UPDATE account_counts SET n = \(`, 0, "what an account has of a kind, once a week"),
	on(`FROM webhook_circuits WHERE failures > @`, 0, "the webhooks that fail, which a dispatcher reads once, at its start"),
	on(`FROM accounts ORDER BY created_at, seq LIMIT`, 20_000, "a page of 1,000 accounts; the small database has ten"),
	on(`FROM gateway_(deployments|tunnels|client_cas)( WHERE (removed_at IS NULL|version > \?).*)?$`, 0, "n of what is served, which a gateway reads once, at its start; then what changed"),
	on(`FROM gateway_domains d LEFT JOIN .* WHERE d.verified_at IS NOT NULL AND d.version >=? \?( AND d.removed_at IS NULL)? ORDER BY d.version$`, 0, "n domains, which a gateway reads at its start, for its sites and for its certificates; then what changed"),
	on(`^INSERT (OR FAIL )?INTO \S+ (AS \w+ )?\([^)]*\) VALUES …$`, 20_000, "log n in each index of the table, for each of a batch of rows"),

	on(`FROM gateway_requests WHERE .* I?LIKE \? ESCAPE`, 0, "a search of the request log, a span of time after the other, for about a second; then it gives a cursor"),
	on(`FROM key_consumers WHERE .* I?LIKE \? ESCAPE`, 0, "a search looks at each consumer of a bucket, as the exact total of the list does"),
	on(`FROM gateway_deployments WHERE .* I?LIKE \? ESCAPE`, 400_000, "a search looks at the deployments of a project, at most 10,000 (domain.MaxDeployments)"),

	// Pages: the small database has less than one of some things.
	on(`FROM gateway_requests WHERE deployment = \? AND .* ORDER BY at DESC, \+?id DESC LIMIT @$`, 8_000, "a page of requests; the small database has two of the kind"),
	on(`FROM events WHERE account = \? AND \(received_at >= \? AND day >= \?\) .* ORDER BY received_at DESC, id DESC LIMIT @$`, 15_000, "a page of events, 101 weighed and 25 at once read; the small database has 30 in the hour"),
	on(`FROM deliveries AS d WHERE \(d.id >= \? AND d.day >= \?\) AND d.account = \? ORDER BY d.id DESC LIMIT @$`, 9_000, "a page of deliveries, each with the circuit of its webhook; the small database has 30 in the hour"),
	on(`FROM webhooks WHERE account = \? AND NOT deleted ORDER BY created_at, id LIMIT @$`, 45_000, "a page of 1,000 webhooks; the small database has 90"),
	on(`FROM webhook_health WHERE webhook_id IN \(SELECT id FROM webhooks WHERE account = \? AND NOT deleted ORDER BY created_at, id LIMIT @( OFFSET @)?\)$`, 30_000, "a page of 1,000 webhooks; the small database has 90"),
	on(`FROM requests AS r LEFT JOIN deliveries AS d .* ORDER BY r.delivery_id DESC LIMIT @$`, 10_000, "a page of requests; the small database has fewer"),
	on(`FROM gateway_deployments d JOIN gateway_builds b .* WHERE d.name IN \(…\)`, 1_000, "a page of 50 deployments; a plan of Postgres with a hundred times as many takes another way to each"),
	on(`FROM gateway_acme_states WHERE hostname IN \(…\)`, 500, "the 90 domains of an account, of which Postgres reads a small table whole"),
	on(`FROM key_consumers WHERE bucket_id = \? ORDER BY created_at, seq LIMIT @$`, 20_000, "50 consumers are weighed with their first 1,000 keys (maxParts) at a time; one has 10,000"),
	on(`FROM \(SELECT api_keys\..* WHERE consumer_id = \? ORDER BY created_at, seq LIMIT @\) AS part`, 90_000, "the first 1,000 keys (maxParts) of a consumer that has 10,000"),

	on(`FROM gateway_domain_certificates WHERE domain_id IN \(…\)`, 500, "the 90 domains of an account, of which Postgres reads a small table whole"),
	on(`FROM deliveries AS d WHERE d.day = \? AND \(\(\(?d.account = `, 40_000, "the deliveries of 50 events of a shipment at a time (eventsAtOnce), until the page is full"),
	on(`FROM rollup_deltas WHERE account = '' OR account = \?`, 0, "what was counted since it was merged last, a minute ago"),
	on(`FROM gateway_tunnel_operations WHERE \(tunnel_id = \? AND kind = \? AND document = \?\)`, 0, "the operations of a tunnel until a purge ends them"),
	on(`^SELECT w.id, w.rate_per_second, w.max_in_flight, .* LIMIT @ \) s`, 1_000, "the last 20 answers of each webhook that a dry run found deliveries of"),

	on(`FROM deliveries AS d WHERE \(d.account = \?\) IS TRUE AND d.webhook_id = \? ORDER BY d.id DESC LIMIT @$`, 3_000, "a page of a webhook's deliveries, each on a page of the database of its own"),

	// Totals, which the contract has exact in every list with an offset: one entry of an index for each row.
	on(`^SELECT count\(\*\) FROM (projects|key_buckets) WHERE account = \?$`, 0, "the exact total of a list, 3 steps for each of n"),
	on(`^SELECT count\(\*\) FROM key_consumers WHERE bucket_id = \?$`, 0, "the exact total of a list, 3 steps for each of n"),
	on(`^SELECT count\(\*\) FROM api_keys WHERE consumer_id = \?$`, 0, "the exact total of a list, 3 steps for each of n"),
	on(`^SELECT count\(\*\) FROM gateway_deployments WHERE \(?account = \? AND removed_at IS NULL\)?( AND project = \?)?( AND environment_type = \?)?$`, 50_000, "the exact total of a list; at most 10,000 (domain.MaxDeployments)"),
	on(`FROM gateway_deployments WHERE \(account = \? AND removed_at IS NULL\) AND project = \? AND environment_type = \? ORDER BY created_at, seq LIMIT @$`, 50_000, "the deployments of a project of one type are looked for among at most 10,000 (domain.MaxDeployments)"),
	on(`^SELECT coalesce\(sum\(entries\), 0\) FROM audit_days WHERE account = \?`, 5_000, "the counts of an account, a row for each day, action and person: the small database has fewer days"),
	on(`^SELECT count\(\*\) FROM audit_log WHERE NOT counted AND account = \?`, 20_000, "what came since the last purge, an hour ago; the index has nothing else"),
	on(`^SELECT count\(\*\) FROM audit_log WHERE counted AND account = \? AND at >= \? AND at < \?`, 25_000, "the entries of the days of which a list has a part"),
	on(`^INSERT INTO audit_days`, 20_000, "a batch of at most 500 counts"),
	on(`^UPDATE audit_log SET counted = `, 50_000, "a batch of at most 1,000 entries (store.BatchRows)"),

	// What was asked for, and bounds of it.
	on(`^SELECT (h.hour, |coalesce\(k.name, h.consumer_id\), )?CAST\(coalesce\(sum\(h.count\), @\) AS bigint\) FROM meter_hours`, 0, "the exact sum of a meter over the hours asked for: a row for each consumer and hour"),
	on(`FROM gateway_calls WHERE deployment = \? AND step = \? AND start >= \? ORDER BY start, consumer, status LIMIT @$`, 400_000, "the calls of the time asked for, at most 20,001 rows"),
	on(`^WITH RECURSIVE w \(id\) AS \( SELECT min\(webhook_id\) FROM rollups WHERE account = \?`, 0, "goes from webhook to webhook of an account, at most 10,000 (domain.MaxWebhooks), 120 steps each"),
	on(`^SELECT w.id, \(SELECT count\(\*\) FROM \(SELECT @ AS one FROM deliveries d WHERE d.webhook_id = w.id AND`, 0, "counts what waits for a webhook up to 100,000 (pipeline.MostCounted), in lists up to 1,000 of each (CountedInLists), then stops"),
	on(`^SELECT asked.webhook_id, count\(\*\) AS n FROM \(SELECT r.webhook_id FROM requests r WHERE`, 0, "counts the open requests of a webhook up to 100,000 (pipeline.MostCounted), in lists up to 1,000 for each (CountedInLists), then stops"),
	on(`FROM webhooks WHERE \(account = \? AND NOT deleted\) AND \(NOT active OR EXISTS`, 60_000, "the webhooks of an account, at most 10,000 (domain.MaxWebhooks), until the page of those in trouble is full"),
	on(`FROM (rollups WHERE account = \? AND webhook_id IN \(SELECT value FROM json_each|unnest\(\?::text\[\]\) w \(id\) CROSS JOIN LATERAL \(SELECT .* FROM rollups )`, 20_000, "the counts of the listed webhooks by class, at most 100 at once on a page"),
	on(`FROM webhook_circuits WHERE webhook_id IN \(…\)$`, 20_000, "the circuits of the listed webhooks"),
	on(`FROM webhook_acknowledgements WHERE webhook_id IN \(…\)$`, 20_000, "what was acknowledged of the listed webhooks"),
	on(`^SELECT count\(\*\) FROM \(SELECT @ AS one FROM (deliveries|requests AS r) WHERE .* LIMIT @\) AS found$`, 0, "counts what waits for a webhook up to 100,000 (pipeline.MostCounted), then stops"),
	on(`FROM \(SELECT d\.\* FROM deliveries AS d WHERE .* ORDER BY d.id DESC LIMIT @\) AS d WHERE`, 300_000, "a list looks through 4,000 deliveries at most (maxLooked), then gives a cursor"),
	on(`^SELECT d.id FROM deliveries AS d WHERE .* ORDER BY d.id DESC LIMIT @ OFFSET @$`, 40_000, "the end of the 4,000 deliveries that a list looks through (maxLooked)"),
	on(`^SELECT d.webhook_id, count\(\*\) AS number, .* FROM deliveries AS d WHERE`, 2_000_000, "a dry run looks at 20,000 deliveries at most, then estimates"),
	on(`^SELECT count\(\*\) FROM \(SELECT @ FROM requests WHERE id > \? AND id < \? LIMIT @\) s$`, 20_000, "the open requests of a job, at most 4,000 (jobWindow)"),
	on(`^SELECT d.id FROM deliveries AS d WHERE .* ORDER BY d.id LIMIT @ OFFSET @$`, 150_000, "the end of the 20,000 deliveries that a dry run looks at"),
	on(`^INSERT INTO (requests|job_deliveries) .* SELECT .* FROM deliveries d (JOIN|WHERE)`, 150_000, "a page of a job"),
	on(`^SELECT d.id FROM deliveries AS d WHERE .* d.updated_at <= \?( AND d.id <= \?)? ORDER BY d.id LIMIT @$`, 100_000, "a page of a job, which looks through at most 4,000 deliveries (maxLooked)"),
	on(`^UPDATE webhooks SET version=\? WHERE account = \? AND signing <> \? AND NOT deleted$`, 60_000, "the webhooks of an account, at most 10,000 (domain.MaxWebhooks), all of which must hear of its new key"),
	on(`^DELETE FROM key_(buckets|consumers) WHERE`, 0, "what a bucket or a consumer has goes with it"),
	on(`^SELECT \(SELECT count\(\*\) FROM key_consumers c WHERE`, 0, "what goes with a bucket or a consumer is counted before"),
	on(`^DELETE FROM webhook_cursors WHERE webhook_id = \?$`, 2_000, "the cursors of a webhook, at most 100"),
	on(`FROM features f LEFT JOIN meters m .* WHERE f.bucket_id (= ANY|IN )\(`, 10_000, "the features of a bucket, or Postgres reads a small table whole"),

	// What ends soon.
	on(`^SELECT count\(\*\) AS n, min\(\w+\) AS soonest FROM \(SELECT (k\.)?expires_at .* LIMIT \?\) AS ends$`, 20_000, "counts what ends within 14 days up to 1,000 of a kind (domain.MaxExpiring), then stops"),
	on(`^SELECT count\(\*\) AS n, min\(notice_at\) AS soonest FROM `, 20_000, "counts the hostnames that are to pass, up to 1,000 (domain.MaxExpiring), then stops"),
	on(`^SELECT count\(\*\) AS n, min\(at\) AS soonest FROM \(SELECT [wh]\..* LIMIT \?\) AS ends$`, 60_000, "counts what ends within 14 days up to 1,000 of a kind (domain.MaxExpiring), then stops"),
	on(`^SELECT COUNT\(\*\) AS n, MIN\(not_after\) AS soonest FROM .* LIMIT \?\) AS uploaded .* LIMIT \?\) AS given`, 400_000, "counts what ends within 14 days up to 1,000 of two kinds (domain.MaxExpiring), then stops"),
	on(`FROM webhook.* \w\.(auth_expires_at|previous_secret_expires_at|certificate_expires_at) LIMIT @$`, 60_000, "what of an account ends within 14 days, the soonest 1,000"),
	on(`FROM api_keys k JOIN .* ORDER BY k.expires_at LIMIT @$`, 0, "the keys that end within 14 days, of all accounts: keys have no account beside their end"),
	on(`^SELECT d.hostname, COALESCE\(c.not_after, s.not_after\) AS not_after FROM gateway_domains d`, 3_000, "the domains of an account, at most 100 (domain.MaxCustomDomains), of which Postgres reads small tables whole"),

	// Stages: a batch is what came at once, on a busy machine more than on a quiet one.
	on(`FROM deliveries WHERE id IN \(SELECT value FROM json_each\(\?\)\) AND account = \? AND day = \?$`, 30_000, "the deliveries of a batch of outcomes, at most 1,000"),
	on(`FROM unnest\(\?::text\[\]\) AS k \(id\) CROSS JOIN LATERAL \( SELECT id, rev FROM deliveries`, 20_000, "the deliveries of a batch of outcomes, at most 1,000"),
	on(`FROM events WHERE day = \? AND account = \? AND id IN \(…\)$`, 20_000, "the events of a page of the relay, at most 256"),
	on(`FROM outbox WHERE .*received_at < \? .* ORDER BY received_at, account, id LIMIT @$`, 10_000, "a page of the relay, at most 256 events"),
	on(`^DELETE FROM outbox WHERE \(received_at, account, id\) IN \(VALUES`, 5_000, "the events that a batch of outcomes has settled, at most 1,000"),
	on(`^UPDATE outbox AS o SET relayed_at`, 5_000, "a page of the relay, at most 256 events"),
	on(`WHERE (NOT deleted AND )?(webhook_id|id) (IN \(SELECT value FROM json_each\(\?\)\)|= ANY\(\?\))$`, 20_000, "the webhooks of a batch of outcomes, at most 1,000"),
	on(`FROM rollups WHERE \(account, webhook_id, step, start, event_type, class\) IN \(VALUES`, 10_000, "the counts of a batch of outcomes: the text differs by how many they are"),
	on(`^copy deliveries \(`, 60_000, "a batch of deliveries, at most 1,000, in each index of their table"),
}

// beside are the statements of an operation of one account that may do more because of others, and why.
var beside = []law{
	on(`FROM api_keys k JOIN .* ORDER BY k.expires_at LIMIT @$`, 0, "the keys that end within 14 days, of all accounts: keys have no account beside their end"),
	on(`FROM webhook_health h JOIN webhooks w .* ORDER BY h.certificate_expires_at LIMIT @$`, 60_000, "the receivers' certificates that end within 14 days, of all accounts: the account is with the webhook"),
	on(`FROM accounts ORDER BY created_at, seq LIMIT`, 20_000, "a page of accounts; the small database has ten"),
	on(`FROM gateway_requests WHERE deployment = \? AND .* ORDER BY at DESC, \+?id DESC LIMIT @$`, 8_000, "a page of requests; the small database has two of the kind"),
	on(`^SELECT d.id FROM deliveries AS d WHERE d.account = \? .* ORDER BY d.id DESC LIMIT @ OFFSET @$`, 5_000, "the end of what a list looks through: in the small database it finds enough"),
	on(`FROM \(SELECT d\.\* FROM deliveries AS d WHERE d.account = \? .*ORDER BY d.id DESC LIMIT @\) AS d WHERE`, 25_000, "a list looks through the account's deliveries until the page is full: those of one type lie closer in the small database"),
	on(`FROM deliveries AS d WHERE d.day = \? AND \(\(\(?d.account = `, 40_000, "the deliveries of 50 events of a shipment at a time (eventsAtOnce): after midnight they are of two days"),
	on(`^DELETE FROM key_buckets WHERE`, 0, "what a bucket has goes with it: the 90th has nothing in the small database"),
	on(`FROM webhooks WHERE \(account = \? AND NOT deleted\) AND \(NOT active OR EXISTS`, 60_000, "the webhooks of an account, at most 10,000 (domain.MaxWebhooks), until the page of those in trouble is full: how many are depends on the hour"),
}

// allows reports whether one of the laws lets one call of a statement do so much on the large database.
func allows(laws []law, text string, each int64) bool {
	for i := range laws {
		if laws[i].of.MatchString(text) {
			return laws[i].most == 0 || each <= laws[i].most
		}
	}
	return false
}
