package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// SQLite appends committed pages to its log (WAL). A checkpoint moves them into the file of the
// database. The log starts over once all its pages are moved and nothing reads from it. SQLite
// itself makes a checkpoint at the end of a commit, and the commit waits for it: 2.7 s after a log
// of 219 MB. Here, checkpoints run in parallel to the commits, on a connection of their own.
const (
	// checkpointTick is how often the log is checked.
	checkpointTick = 250 * time.Millisecond
	// restedTicks is how many ticks lie between two checks while nothing is written.
	restedTicks = 4
	// checkpointPages is how many pages of the log, of 4 KB each, are worth a checkpoint.
	checkpointPages = 1000
	// restartPages is the number of pages from which on the log should start over. For that the writer
	// is held while the last pages are moved, so it is done only when at most restartRest are left.
	restartPages = 4 * checkpointPages
	restartRest  = checkpointPages / 2
	// restartWait is how long a restart waits at most for connections that read from the log.
	restartWait = 20 * time.Millisecond
	// catchUps bounds how often a tick moves the pages that came while it moved others.
	catchUps = 4
	// logLimit is the size in bytes to which the file of a log shrinks. The file shrinks by at most logStep each time
	// the log starts over, because the first commit of the new log waits for that: 77 ms for 180 MB at once.
	logLimit = 64 << 20
	logStep  = 8 << 20
	// restTicks is the number of ticks between two checks whether the file rests. It rests when less than a checkpoint
	// was written since the last check. Then the cached pages, up to 32 MB for each connection, are useless.
	restTicks = 40
	// logPage is how many bytes one page takes in the log.
	logPage = 4096 + 24
)

// checkpoints keeps the log of a SQLite file short.
type checkpoints struct {
	writer, own, reader *sql.DB  // own has synchronous off
	file                *os.File // the file of the database
	sync                func(*os.File) error
	stop                context.CancelFunc
	ended               chan struct{}
	release             func() // lets the log start over again; nil: nothing prevents it
	broken              error  // why the file could not be flushed to the disk; then the log must neither start over nor be removed

	pages, waiting atomic.Int64 // pages in the log, and those of them that are not in the file yet
	seen           int64        // pages of the log at the last check for rest
	worked         bool         // more than a little was written since memory was given back
}

func newCheckpoints(writer *sql.DB, file *os.File) (*checkpoints, error) {
	c := &checkpoints{writer: writer, file: file, sync: syncFile, ended: make(chan struct{})}
	var err error
	if c.own, err = sql.Open(sqliteDriver, sqliteDSN(file.Name(), false, "synchronous(OFF)")); err != nil {
		return nil, err
	}
	if c.reader, err = sql.Open(sqliteDriver, sqliteDSN(file.Name(), true)); err != nil {
		return nil, errors.Join(err, c.own.Close())
	}
	c.own.SetMaxOpenConns(1)
	c.reader.SetMaxOpenConns(1)
	return c, nil
}

func (c *checkpoints) start() {
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go c.run(ctx)
}

// close ends the checkpoints. SQLite removes the log when the last connection is closed. If the log is still needed,
// close leaves the reader open, so that it is never the last.
func (c *checkpoints) close() error {
	c.stop()
	<-c.ended
	if c.broken != nil {
		c.release()
		return errors.Join(c.broken, c.own.Close())
	}
	return errors.Join(c.own.Close(), c.reader.Close())
}

func (c *checkpoints) run(ctx context.Context) {
	defer close(c.ended)
	ticker := time.NewTicker(checkpointTick)
	defer ticker.Stop()
	still := false
	for tick := 1; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !still || tick%restedTicks == 0 {
			pages := c.pages.Load()
			// A failure is temporary, or commits fail as well and report it. Until it is over the
			// log grows, which its metric shows.
			err := c.round(ctx)
			still = err == nil && c.pages.Load() == pages
		}
		if tick%restTicks == 0 {
			_ = c.rest(ctx)
		}
	}
}

// rest gives back the memory of all connections when the file rests. One connection gives back the pages of all
// connections, because SQLite is built with SQLITE_ENABLE_MEMORY_MANAGEMENT here.
func (c *checkpoints) rest(ctx context.Context) error {
	grown := c.pages.Load() - c.seen
	c.seen += grown
	if grown < 0 || grown >= checkpointPages { // the log has started over, or has grown
		c.worked = true
		return nil
	}
	if !c.worked {
		return nil
	}
	c.worked = false
	_, err := c.own.ExecContext(ctx, "PRAGMA shrink_memory")
	return err
}

// round moves the waiting pages if that is worthwhile, and lets the log start over when it is long.
func (c *checkpoints) round(ctx context.Context) error {
	if c.broken != nil {
		return c.broken
	}
	if err := c.pragma(ctx, c.own, "NOOP"); err != nil {
		return err
	}
	if c.pages.Load() < restartPages && c.waiting.Load() < checkpointPages {
		return nil
	}
	for range catchUps {
		if err := c.move(ctx); err != nil {
			return err
		}
		if c.waiting.Load() <= restartRest {
			break
		}
	}
	if c.pages.Load() < restartPages || c.waiting.Load() > restartRest {
		return nil
	}
	return c.restart(ctx)
}

// move moves the waiting pages into the file and flushes the file to the disk. The transaction keeps the log until then.
// So the end of ctx must not end the transaction, or a commit could overwrite the log before the file is on the disk.
func (c *checkpoints) move(ctx context.Context) error {
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	tx, err := c.reader.BeginTx(holding, nil)
	if err != nil {
		release()
		return err
	}
	// The transaction begins only when it first reads the file.
	if _, err = tx.ExecContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1"); err == nil {
		err = c.pragma(ctx, c.own, "PASSIVE")
	}
	if c.broken = c.sync(c.file); c.broken != nil {
		c.release = release
		return c.broken
	}
	err = errors.Join(err, tx.Rollback())
	release()
	return err
}

// restart holds the writer and moves the last pages, so that the next commit starts the log over.
func (c *checkpoints) restart(ctx context.Context) error {
	conn, err := c.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// The end of ctx must not break this off: the connection's next user would have only this short busy timeout.
	ctx = context.WithoutCancel(ctx)
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", restartWait.Milliseconds())); err != nil {
		return err
	}
	limit := int64(logLimit)
	if info, err := os.Stat(c.file.Name() + "-wal"); err == nil {
		limit = max(limit, info.Size()-logStep)
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA journal_size_limit(%d)", limit)); err != nil {
		return err
	}
	err = c.pragma(ctx, conn, "RESTART")
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", busyTimeout.Milliseconds())); err != nil {
		return err
	}
	return err
}

// pragma makes a checkpoint of a kind and notes the state of the log after it.
func (c *checkpoints) pragma(ctx context.Context, on interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, kind string) error {
	var busy, pages, moved int64
	if err := on.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+kind+")").Scan(&busy, &pages, &moved); err != nil {
		return err
	}
	c.pages.Store(pages)
	c.waiting.Store(pages - moved)
	return nil
}

// Log is the size of the log of a SQLite file, in bytes.
type Log struct {
	Bytes, Waiting int64 // Waiting is the part that is not in the file of the database yet
}

// Log returns the size of the log of a SQLite file a moment ago; zero on Postgres.
func (s *Store) Log() Log {
	d, ok := s.dialect.(*sqliteDialect)
	if !ok || d.checkpoints == nil {
		return Log{}
	}
	return Log{Bytes: d.checkpoints.pages.Load() * logPage, Waiting: d.checkpoints.waiting.Load() * logPage}
}
