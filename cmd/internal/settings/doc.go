// Package settings reads the settings of a Waybill process. Flags win over the
// environment, the environment over a file, the file over the default. All faults are
// reported at once, by setting, and no secret is ever shown.
package settings
