package main

import (
	"math"
	"time"
)

// today is the day that the databases' clocks show. Partitions are those of the days before it.
var today = time.Date(2025, time.June, 10, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// keptDays is how many days have partitions, as with the retention that an installation begins with.
const keptDays = 30

// fixed are the tables that do not grow: one row, or one for each process, stream or migration.
var fixed = map[string]bool{ //nolint:gochecknoglobals // a table
	"bus_streams": true, "config_version": true, "feed_order": true, "gateway_version": true, "gateway_writers": true,
	"goose_db_version": true, "log_floor": true,
}

// rowsOf are the rows of the largest tables; each of the others has otherRows.
var rowsOf = map[string]float64{ //nolint:gochecknoglobals // a table
	"events": 10e6, "deliveries": 10e6, "attempts": 10e6, "rollups": 10e6, "audit_log": 10e6,
	"gateway_requests": 10e6, "gateway_calls": 10e6, "meter_hours": 10e6,
	"outbox": 1e6, "requests": 1e6, "rollup_deltas": 1e6, "webhook_sequences": 1e6, "job_deliveries": 1e6,
	"api_keys": 1e6, "key_consumers": 1e6, "idempotency_keys": 1e6,
}

const otherRows = 100_000

func rowCount(table string) float64 {
	if fixed[table] {
		return 4
	}
	if n, ok := rowsOf[table]; ok {
		return n
	}
	return otherRows
}

// indexedRows returns how many rows of a table an index has: one with a condition is of few.
func indexedRows(table string, partial bool) float64 {
	if partial {
		return max(rowCount(table)/100, 1)
	}
	return rowCount(table)
}

// usual are values that 99 of 100 rows have, as a database that has worked for long has them: what is
// done, closed or kept.
var usual = map[string]string{ //nolint:gochecknoglobals // a table
	"audit_log.counted": "t", "deliveries.status": "delivered", "deliveries.test": "f", "deliveries.in_lane": "f", "gateway_builds.status": "SUCCESS",
	"jobs.all_sent": "t", "outbox.relayed": "0", "webhook_circuits.failures": "0", "webhooks.active": "t", "webhooks.deleted": "f",
}

// tenants are the columns that say whose a row is. A tenant has any number of rows.
var tenants = map[string]bool{"account": true, "bucket_id": true, "deployment": true} //nolint:gochecknoglobals // a table

// different is how many values a column has, by its name. A column that is not here has another
// value in each row. There are few tenants, and they are large: many small ones would hide what reads
// all of one.
var different = map[string]float64{ //nolint:gochecknoglobals // a table
	"account": 100, "deployment": 100, "bucket_id": 100, "project": 200, "branch": 200, "consumer": 10_000, "consumer_id": 10_000,
	"webhook_id": 10_000, "event_id": 1e6, "delivery_id": 1e6, "shipment": 1e6, "job_id": 1000, "tunnel_id": 1000, "plan_id": 100, "meter_id": 1000,
	"type": 20, "event_type": 20, "status": 5, "kind": 5, "reason": 8, "class": 10, "last_class": 10, "attempt_class": 10, "last_status": 40,
	"attempt_status": 40, "source": 2, "method": 6, "route": 200, "route_path": 200, "severity": 4, "step": 3, "action": 40, "state": 4,
	"environment_type": 3, "disabled_reason": 5, "ordering": 2, "delivery": 2, "signing": 3,
	"active": 2, "deleted": 2, "test": 2, "in_lane": 2, "relayed": 3, "all_sent": 2, "cancelled": 2,
	"day": keptDays, "hour": 10_000, "minute": 10_000, "start": 10_000, "place": 1000, "turn": 1000,
	"attempts": 10, "attempt_number": 10, "number": 10, "failures": 20,
}

// values returns how many values a column has in a table of n rows.
func values(column string, n float64) float64 {
	if d, ok := different[column]; ok {
		return math.Min(d, n)
	}
	return n
}
