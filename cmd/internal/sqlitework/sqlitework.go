// Package sqlitework reports how much work SQLite does for each statement, for tests and benchmarks.
package sqlitework

import (
	"fmt"
	"net/url"
	"reflect"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Statement is a statement that has ended.
type Statement struct {
	Path  string // path of the database's file
	Text  string
	Steps int64 // steps of SQLite's virtual machine
	Pages int64 // requested pages: counting all rows of a table is one step, but all of its pages
}

// watch knows the connections of this process by their handle.
type watch struct {
	ended func(Statement)
	mu    sync.Mutex
	conns map[uintptr]*watched
}

// watched is a connection. SQLite writes its counters to value, which is in the heap and stays there.
type watched struct {
	path  string
	value [2]int32
}

// Watch calls ended for each statement of every connection that is opened from now on, one call at a time. The
// driver hides its handle, so Watch reads it from the connection. SQLite reports each statement at its end
// (sqlite3_trace_v2). Watch may be called once in a process.
func Watch(ended func(Statement)) {
	w := &watch{ended: ended, conns: make(map[uintptr]*watched)}
	traced := func(tls *libc.TLS, _ uint32, db, statement, _ uintptr) int32 {
		w.trace(tls, db, statement)
		return 0
	}
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		fields := reflect.ValueOf(conn).Elem()
		db := uintptr(fields.FieldByName("db").Uint())
		tls := (*libc.TLS)(fields.FieldByName("tls").UnsafePointer())
		address, err := url.Parse(dsn)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.conns[db] = &watched{path: address.Path}
		w.mu.Unlock()
		if rc := lib.Xsqlite3_trace_v2(tls, db, lib.SQLITE_TRACE_PROFILE, *(*uintptr)(unsafe.Pointer(&struct { //nolint:gosec // a function, as C has it
			f func(*libc.TLS, uint32, uintptr, uintptr, uintptr) int32
		}{traced})), db); rc != lib.SQLITE_OK {
			return fmt.Errorf("watch a connection: SQLite says %d", rc)
		}
		return nil
	})
}

func (w *watch) trace(tls *libc.TLS, db, statement uintptr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on := w.conns[db]
	s := Statement{Path: on.path, Steps: int64(lib.Xsqlite3_stmt_status(tls, statement, lib.SQLITE_STMTSTATUS_VM_STEP, 1))}
	for _, counter := range []int32{lib.SQLITE_DBSTATUS_CACHE_HIT, lib.SQLITE_DBSTATUS_CACHE_MISS} {
		lib.Xsqlite3_db_status(tls, db, counter, uintptr(unsafe.Pointer(&on.value[0])), uintptr(unsafe.Pointer(&on.value[1])), 1) //nolint:gosec // value stays where it is
		s.Pages += int64(on.value[0])
	}
	s.Text = libc.GoString(lib.Xsqlite3_sql(tls, statement))
	w.ended(s)
}
