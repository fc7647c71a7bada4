// Package clienttest makes typed clients from Waybill's API document with the generators that people use, compiles
// them, and calls a running Waybill with each.
package clienttest
