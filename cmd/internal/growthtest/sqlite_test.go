package growthtest

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

// sqliteWork counts what SQLite does for each statement, on all connections of this process, by the
// database's file. The driver hides its handle: it is read from the connection, and SQLite tells at
// the end of each statement (sqlite3_trace_v2) which one it was.
type sqliteWork struct {
	mu    sync.Mutex
	files map[string]statements // by path
	conns map[uintptr]*watched  // by handle
}

// watched is a connection. SQLite writes its counters to value, which is in the heap and stays there.
type watched struct {
	path  string
	value [2]int32
}

// watchSQLite has every connection that is opened from now on counted.
func watchSQLite() *sqliteWork {
	w := &sqliteWork{files: make(map[string]statements), conns: make(map[uintptr]*watched)}
	ended := func(tls *libc.TLS, _ uint32, db, statement, _ uintptr) int32 {
		w.ended(tls, db, statement)
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
		if rc := lib.Xsqlite3_trace_v2(tls, db, lib.SQLITE_TRACE_PROFILE, *(*uintptr)(unsafe.Pointer(&struct {
			f func(*libc.TLS, uint32, uintptr, uintptr, uintptr) int32
		}{ended})), db); rc != lib.SQLITE_OK {
			return fmt.Errorf("watch a connection: SQLite says %d", rc)
		}
		return nil
	})
	return w
}

// ended adds the steps of the virtual machine and the pages that were asked for: counting all rows of
// a table is one step, and all of its pages.
func (w *sqliteWork) ended(tls *libc.TLS, db, statement uintptr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on := w.conns[db]
	amount := int64(lib.Xsqlite3_stmt_status(tls, statement, lib.SQLITE_STMTSTATUS_VM_STEP, 1))
	for _, counter := range []int32{lib.SQLITE_DBSTATUS_CACHE_HIT, lib.SQLITE_DBSTATUS_CACHE_MISS} {
		lib.Xsqlite3_db_status(tls, db, counter, uintptr(unsafe.Pointer(&on.value[0])), uintptr(unsafe.Pointer(&on.value[1])), 1)
		amount += int64(on.value[0])
	}
	text := libc.GoString(lib.Xsqlite3_sql(tls, statement))
	if w.files[on.path] == nil {
		w.files[on.path] = make(statements)
	}
	w.files[on.path].add(text, 1, amount)
}

// take returns what was counted of a file since it was asked last.
func (w *sqliteWork) take(path string) statements {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.files[path]
	delete(w.files, path)
	return of
}
