//go:build statements

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"modernc.org/sqlite"
)

// The tests' programs are built with the tag statements. Each writes the texts of all statements that
// the product runs, without their values, to a file of its own in the folder RECORD_STATEMENTS;
// cmd/lab/plans plans them. Statements of tests and migrations are left out.

// statements are the statements that this process has recorded.
//
//nolint:gochecknoglobals // one file for a process, and nobody hands a test's store anything
var statements struct {
	sync.Mutex
	seen map[string]bool
	file *os.File
}

// record writes a statement to the file, unless it was recorded before.
func record(dialect, text string) {
	folder := os.Getenv("RECORD_STATEMENTS")
	if folder == "" {
		return
	}
	statements.Lock()
	defer statements.Unlock()
	if statements.seen[dialect+text] {
		return
	}
	by, ok := caller()
	if !ok {
		return
	}
	line, err := json.Marshal(map[string]string{"dialect": dialect, "by": by, "text": text})
	if err != nil {
		panic(err)
	}
	if statements.file == nil {
		if statements.file, err = os.CreateTemp(folder, "*.jsonl"); err != nil {
			panic(fmt.Errorf("record statements: %w", err))
		}
		statements.seen = map[string]bool{}
	}
	if _, err := statements.file.Write(append(line, '\n')); err != nil {
		panic(fmt.Errorf("record statements: %w", err))
	}
	statements.seen[dialect+text] = true
}

// caller returns the function of the product that runs a statement; false: a test or a migration runs it.
func caller() (name string, product bool) {
	const project, engine = "waybill.dev/", "waybill.dev/shared/store."
	wrapper := func(function string) bool { // reports whether a function runs the statements of its callers
		in, ok := strings.CutPrefix(function, engine)
		return ok && (strings.HasPrefix(in, "limitedReads.") || strings.HasPrefix(in, "(*frequentStatements).") || strings.HasPrefix(in, "Conn.") || strings.HasPrefix(in, "(*statementCache).") || strings.HasPrefix(in, "(*Store).Write"))
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, "github.com/pressly/goose"), strings.HasPrefix(frame.Function, "github.com/jackc/pgx/v5.(*copyFrom)"):
			return "", false
		case strings.HasSuffix(frame.File, "/record.go") || !strings.HasPrefix(frame.Function, project) || wrapper(frame.Function):
		default:
			path, _, _ := strings.Cut(frame.Function[strings.LastIndex(frame.Function, "/")+1:], ".")
			test := strings.HasSuffix(frame.File, "_test.go") || strings.HasSuffix(path, "test")
			switch {
			case test:
				return name, name != ""
			case !strings.HasPrefix(frame.Function, engine):
				return strings.TrimPrefix(frame.Function, project), true
			case name == "":
				name = strings.TrimPrefix(frame.Function, project)
			}
		}
		if !more {
			return name, name != ""
		}
	}
}

func recordPostgres(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer{} }

// tracer records the statements that go to Postgres. A COPY has no plan.
type tracer struct{}

func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	record("postgres", data.SQL)
	return ctx
}
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		record("postgres", q.SQL)
	}
	return ctx
}
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (tracer) TracePrepareStart(ctx context.Context, _ *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	record("postgres", data.SQL)
	return ctx
}
func (tracer) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// openSQLiteFile opens a file by its DSN, through connections that record.
func openSQLiteFile(dsn string) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(recordingConnector{c}), nil
}

type recordingConnector struct{ driver.Connector }

func (c recordingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recordingConn{conn.(sqliteConn)}, nil
}

// sqliteConn is the interface of the driver's connection that database/sql, backups and tests need.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.DBStatus
	NewBackup(to string) (*sqlite.Backup, error)
}

type recordingConn struct{ sqliteConn }

func (c recordingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	record("sqlite", query)
	return c.sqliteConn.PrepareContext(ctx, query)
}

func (c recordingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	record("sqlite", query)
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c recordingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	record("sqlite", query)
	return c.sqliteConn.QueryContext(ctx, query, args)
}
