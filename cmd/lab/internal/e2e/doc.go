// Package e2e tests Waybill from outside: with real processes, a real bus, a real database and
// a receiver that shares no code with it. Every case runs in both forms of Waybill, all in
// one (SQLite, embedded NATS) and split (Postgres, a nats-server process, two dispatchers).
package e2e
