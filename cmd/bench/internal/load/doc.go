// Package load is the three processes beside Waybill in a bench: a receiver that counts
// what arrives, a publisher, and a bare loop that does what a delivery can't do without
// (HMAC and POST) and nothing else. They are written to use as little of the processors
// as they can, which they share with what is measured: the publisher and the receiver
// speak just the HTTP that they need, and events are a template with a number and a time.
//
// Each is told what to do by a line of JSON on its standard input and answers with one on
// its standard output; it ends with its input, so none outlives who started it.
package load
