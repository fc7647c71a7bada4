// Package clienttest is the root of the programs in oapi and ogen, which need the clients that are generated into them.
package clienttest
