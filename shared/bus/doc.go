// Package bus is the transport between Waybill's processes. It has the NATS JetStream streams,
// the subjects and headers of events, due deliveries, held deliveries and records,
// and the core subjects on which processes notify each other.
//
// The bus only transports. Every stream may be lost completely: everything that
// REST accepted is restored from the database.
package bus
