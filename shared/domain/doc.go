// Package domain holds what Waybill is about: events, webhooks, deliveries and
// attempts, with the rules that need nothing but the standard library. It knows
// neither the database, the bus nor HTTP.
package domain
