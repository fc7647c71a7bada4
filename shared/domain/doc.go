// Package domain has Waybill's own concepts: events, webhooks, deliveries and
// attempts, with their rules. It uses only the standard library, and knows
// neither the database, the bus nor HTTP.
package domain
