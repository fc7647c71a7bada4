package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// tableEvents is partitioned by day.
const tableEvents = "events"

// insertEventsPostgres adds the events that are not repeats, with an outbox row each, in one statement, and so with one round trip and one
// snapshot. An event that is no repeat goes into today's partition, into the outbox with the configuration version of that snapshot, and
// into the counts. Today's repeats are found by the primary key, which also waits for a commit in progress; yesterday's by an anti-join.
func insertEventsPostgres(ctx context.Context, c store.Conn, in intake) (intakeResult, error) {
	n := len(in.events)
	accounts, ids := make([]string, n), make([]string, n)
	types, times := make([]string, n), make([]string, n)
	payloads, shipments, places := make([][]byte, n), make([]*int64, n), make([]int32, n)
	for i, event := range in.events {
		accounts[i], ids[i] = event.Account, event.ID
		types[i], times[i] = string(event.Type), event.Timestamp
		payloads[i], shipments[i] = event.Payload, envelope.Shipment(event.Account, event.Payload)
		places[i] = int32(event.place) // a commit has far fewer events
	}
	args := []any{
		domain.Day(in.now), in.now, in.now.Add(-domain.DedupeWindow),
		accounts, ids, types, times, n, shipments, rollup.MinuteOf(in.now), places, payloads, // the largest last: the buffer need not grow after it
	}
	var result intakeResult
	var count int
	var keys, before *string
	into := []any{&result.version, &count, &keys}
	if in.ordering {
		into = append(into, &before)
	}
	if err := c.QueryRow(ctx, insertEventsSQL(in.now, in.ordering), args...).Scan(into...); err != nil {
		return intakeResult{}, err
	}
	if before != nil {
		var err error
		if result.places, err = parsePlaces(*before); err != nil {
			return intakeResult{}, err
		}
	}
	if count == n {
		return result, nil
	}
	result.fresh = make(map[eventRef]struct{}, count)
	if keys == nil {
		return result, nil
	}
	for key := range strings.SplitSeq(*keys, "\n") {
		account, id, _ := strings.Cut(key, " ")
		result.fresh[eventRef{account, id}] = struct{}{}
	}
	return result, nil
}

// insertEventsSQL names the partitions themselves, so that Postgres does not plan and lock all the
// others. The text changes once a day. IS TRUE keeps the time out of the choice of an index: the
// one by id is the right one. OFFSET 0 makes Postgres look each event up by id, also with a plan
// that was made while the partition was empty.
//
// The arrays come from subqueries so that the planner doesn't see their lengths: a plan for one
// event looks cheaper than one for any number, and Postgres would make it again each time (0.3 ms,
// twice the execution) instead of keeping it.
//
// The first row waits for FeedLock, before anything has given the transaction an id. If an account
// has ordering, the outbox rows have places.
func insertEventsSQL(now time.Time, ordering bool) string {
	queued, places := sqlQueued, ""
	if ordering {
		queued, places = sqlQueuedInOrder, sqlPlacesBefore
	}
	return `
WITH fresh AS (
	INSERT INTO ` + store.Partition(tableEvents, now) + ` (day, account, id, type, occurred_at, payload, received_at, shipment, place)
	SELECT $1::date, i.account, i.id, i.type, i.occurred_at, i.payload, $2::timestamptz, i.shipment, i.place
	FROM unnest((SELECT $4::text[]), (SELECT $5::text[]), (SELECT $6::text[]), (SELECT $7::text[]), (SELECT $12::bytea[]), (SELECT $9::bigint[]),
		(SELECT $11::integer[])) AS i (account, id, type, occurred_at, payload, shipment, place),
		(SELECT pg_advisory_xact_lock_shared(` + strconv.Itoa(store.FeedLock) + `)) AS feed
	WHERE NOT EXISTS (
		SELECT 1 FROM ` + store.Partition(tableEvents, now.Add(-24*time.Hour)) + ` y
		WHERE y.account = i.account AND y.id = i.id AND (y.received_at > $3::timestamptz) IS TRUE OFFSET 0)
	ON CONFLICT DO NOTHING
	RETURNING account, id, type, place
), ` + queued + `, tallied AS (
	` + rollup.InsertAccepted + `
	SELECT account, type, $10::timestamptz, count(*) FROM fresh GROUP BY account, type
), counted AS (
	SELECT count(*) AS n FROM fresh
)
SELECT config_version.version, counted.n,
	CASE WHEN counted.n < $8::bigint THEN (SELECT string_agg(account || ' ' || id, E'\n') FROM fresh) END` + places + `
FROM config_version, counted`
}

// sqlQueued queues the new events.
const sqlQueued = `queued AS (
	INSERT INTO outbox (received_at, account, id, version)
	SELECT $2::timestamptz, fresh.account, fresh.id, config_version.version FROM fresh, config_version
)`

// sqlQueuedInOrder queues the new events, with places. Commits of one account wait for each other at the
// lock on the account's row. The lock is taken after the events are added, and in the order of the accounts.
// The update sees what the commit before has stored, even if that is newer than the statement's snapshot.
const sqlQueuedInOrder = `lined AS MATERIALIZED (
	SELECT account FROM ordering_accounts WHERE account IN (SELECT account FROM fresh) ORDER BY account FOR UPDATE
), taken AS (
	UPDATE ordering_accounts o SET last_place = o.last_place + added.n
	FROM lined JOIN (SELECT account, count(*) AS n FROM fresh GROUP BY account) added USING (account)
	WHERE o.account = lined.account
	RETURNING o.account, o.last_place - added.n AS before
), queued AS (
	INSERT INTO outbox (received_at, account, id, version, place)
	SELECT $2::timestamptz, fresh.account, fresh.id, config_version.version,
		taken.before + row_number() OVER (PARTITION BY fresh.account ORDER BY fresh.place)
	FROM fresh LEFT JOIN taken ON taken.account = fresh.account CROSS JOIN config_version
)`

// sqlPlacesBefore returns how many places each account had before.
const sqlPlacesBefore = `,
	(SELECT string_agg(account || ' ' || before, E'\n') FROM taken)`

// parsePlaces reads the result of sqlPlacesBefore.
func parsePlaces(text string) (map[string]int64, error) {
	places := map[string]int64{}
	for line := range strings.SplitSeq(text, "\n") {
		account, number, _ := strings.Cut(line, " ")
		before, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read places: %w", err)
		}
		places[account] = before
	}
	return places, nil
}
