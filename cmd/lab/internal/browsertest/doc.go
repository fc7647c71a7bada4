// Package browsertest tries the console in a real Chromium, against a real `waybill dev` with
// receivers that check signatures: journeys by the keyboard alone, what happens live, axe-core on
// every page, a crawl of every link over hostile data, pages without JavaScript, and how much a page
// weighs. The pictures of the documentation are made here too.
//
// It runs by `make browser`, which puts axe-core into the tools folder. Plain `go test` runs nothing
// here, because it has no browser.
package browsertest
