// Package load has the three processes beside Waybill in a benchmark: a receiver that counts
// what arrives, a publisher, and a bare loop that does only what every delivery needs
// (HMAC and POST). They share the processors with what is measured, so they use
// as little processor time as they can: the publisher and the receiver
// implement only the part of HTTP that they need, and events are a template with a number and a time.
//
// Each process gets its commands as lines of JSON on its standard input, and answers on
// its standard output. It ends with its input, so it never outlives the process that started it.
package load
