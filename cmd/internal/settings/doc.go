// Package settings reads what a Waybill process is told from outside. Flags win over the
// environment, the environment over a file, the file over the default. Every fault is
// named at once, by setting, and no secret is ever shown.
package settings
