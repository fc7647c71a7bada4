// Package growthtest has no code of the product. Its tests hold what grows: they run each operation
// of the API, each page of the console and what the services do by themselves on a database with
// 10,000 rows and on one with 1,000,000, and compare the work that the database did for it.
// See docs/growth.md.
package growthtest
