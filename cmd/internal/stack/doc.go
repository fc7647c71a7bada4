// Package stack runs Waybill's real processes beside a test or a chaos run, in the two
// forms that it ships in: all in one (SQLite, embedded NATS), and split (one nats-server
// process or a cluster, Postgres, APIs and dispatchers). Each process can be killed,
// stopped, frozen and started again; only those that were started here are ever touched,
// by their process id.
package stack
