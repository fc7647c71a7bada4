package growthtest

import (
	"sync"

	"waybill.dev/cmd/internal/sqlitework"
)

// sqliteWork counts what SQLite does for each statement, on all connections of this process, by the
// database's file.
type sqliteWork struct {
	mu    sync.Mutex
	files map[string]statements // by path
}

// watchSQLite has every connection that is opened from now on counted.
func watchSQLite() *sqliteWork {
	w := &sqliteWork{files: make(map[string]statements)}
	sqlitework.Watch(w.ended)
	return w
}

// ended adds the steps of the virtual machine and the pages that were asked for.
func (w *sqliteWork) ended(s sqlitework.Statement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files[s.Path] == nil {
		w.files[s.Path] = make(statements)
	}
	w.files[s.Path].add(s.Text, 1, s.Steps+s.Pages)
}

// take returns what was counted of a file since it was asked last.
func (w *sqliteWork) take(path string) statements {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.files[path]
	delete(w.files, path)
	return of
}
