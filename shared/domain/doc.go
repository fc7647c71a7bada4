// Package domain has Waybill's concepts: events, webhooks, deliveries and attempts, with their
// rules. It uses only the standard library, and depends on neither the database, the bus nor HTTP.
package domain
