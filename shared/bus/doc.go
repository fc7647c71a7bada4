// Package bus is the transport between Waybill's processes: NATS JetStream streams,
// the subjects and headers that events, due deliveries, held deliveries and records
// travel under, and the core subjects by which processes nudge each other.
//
// The bus carries, the database keeps: every stream here may be lost whole and what
// REST accepted is restored from the database.
package bus
