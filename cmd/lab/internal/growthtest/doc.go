// Package growthtest has no code of the product. Its tests watch what grows: they run each operation
// of the API, each page of the console, each form that is sent to one and what the services do by themselves on a
// database with 10,000 rows and on one with 1,000,000, on SQLite and on Postgres, and compare the work that the
// database did: steps of SQLite's machine and the pages that it asked for, or the shared buffers that
// Postgres found or read. They are counts: the load of the machine does not change them.
//
//	make growth                                  # fill the databases, compare
//	make growth ARGS='-v -run TestPages'         # ... and print the work of every page
//	make growth ARGS='-keep /tmp/growth'         # fill once; what a run writes stays in them
//
// A statement that does more than one and a half times as much on the large database fails the test
// by its text, unless laws_test.go says why it may: log n, a page of what was asked for, an exact total. A law has a
// bound where there is one, and holds the statement to that. A third database has the 1,000,000 rows in 1,000 accounts,
// and the account that is asked about has as much of them as in the small one: what does more there looks at others.
//
// New operations and pages are found by the API's own lists. An operation without a row in
// operations_test.go fails TestOperations by its name: add how it is called, one call for each filter
// that it has. A page needs a row in pages_test.go if it is asked for with a query, and in forms_test.go if a form is sent
// to it. What a service does by itself is recorded while all services run (TestServices): nothing is to be added, as long
// as it happens within their first seconds. A busy machine has services take more at once, so the laws of stages
// are bounds of a whole batch.
//
// rows_test.go has the rows. In the first two databases all but those of other accounts lie in one account, bucket,
// deployment and shipment, within the product's own limits. A new table gets a line there.
package growthtest
