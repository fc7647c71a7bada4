// Package stack runs Waybill's real processes for a test or a chaos run, in its two
// forms: all in one (SQLite, embedded NATS), and split (one nats-server
// process or a cluster, Postgres, APIs and dispatchers). Each process can be killed,
// stopped, frozen and started again. Only processes that were started here are touched,
// by their process id.
package stack
