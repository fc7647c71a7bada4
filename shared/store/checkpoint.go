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

// SQLite appends what is committed to its log (WAL). A checkpoint moves it into the file of the
// database, and the log begins anew once all of it is there and nobody reads from it. SQLite itself
// makes a checkpoint at the end of a commit, which waits for it: 2.7 s after a log of 219 MB. Here,
// checkpoints run beside the commits, on a connection of their own.
const (
	// checkpointTick is how often the log is looked at.
	checkpointTick = 250 * time.Millisecond
	// restedTicks is the same, in ticks, while nothing is written.
	restedTicks = 4
	// checkpointPages is how many pages of the log make a checkpoint, of 4 KB each.
	checkpointPages = 1000
	// restartPages is from how many pages on the log is to begin anew. For this the writer is held
	// while the last pages are moved, so it is done when only restartRest are left.
	restartPages = 4 * checkpointPages
	restartRest  = checkpointPages / 2
	// restartWait is how long a restart waits for those who read from the log, at most.
	restartWait = 20 * time.Millisecond
	// catchUps bounds how often a tick moves what came while it moved the rest.
	catchUps = 4
	// logLimit is the size in bytes to which the file of a log shrinks. The file shrinks by at most logStep each time that
	// the log begins anew. The commit that begins the log waits for that: 77 ms where 180 MB went at once.
	logLimit = 64 << 20
	logStep  = 8 << 20
	// restTicks is the number of ticks between two looks for rest. The file rests when less than a checkpoint was written
	// since the last look. Then the cached pages, up to 32 MB for each connection, are of no more use.
	restTicks = 40
	// logPage is what one page takes in the log.
	logPage = 4096 + 24
)

// checkpoints keeps the log of a SQLite file short.
type checkpoints struct {
	writer, own, reader *sql.DB  // own has synchronous off
	file                *os.File // the database's
	sync                func(*os.File) error
	stop                context.CancelFunc
	ended               chan struct{}
	release             func() // ends what keeps the log; nil: nothing does
	broken              error  // why the file could not be forced to the disk; then the log must neither begin anew nor be removed

	pages, waiting atomic.Int64 // in the log; of them, not in the file yet
	seen           int64        // pages of the log at the last look for rest
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
// close leaves the reader open, so that there is no last one.
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
			// A failure passes, or commits meet it as well and tell of it. The log grows meanwhile,
			// which its metric shows.
			err := c.round(ctx)
			still = err == nil && c.pages.Load() == pages
		}
		if tick%restTicks == 0 {
			_ = c.rest(ctx)
		}
	}
}

// rest gives back the memory of all connections when the file rests. One connection gives back the pages of all of them,
// because SQLite is built with SQLITE_ENABLE_MEMORY_MANAGEMENT here.
func (c *checkpoints) rest(ctx context.Context) error {
	grown := c.pages.Load() - c.seen
	c.seen += grown
	if grown < 0 || grown >= checkpointPages { // the log began anew, or grew
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

// round moves what waits, if it is worth it, and has the log begin anew when it is long.
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

// move moves what waits into the file, and the file to the disk. The transaction keeps the log until then. So
// the end of ctx must not end the transaction, or a commit could begin the log anew before the file is on the disk.
func (c *checkpoints) move(ctx context.Context) error {
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	tx, err := c.reader.BeginTx(holding, nil)
	if err != nil {
		release()
		return err
	}
	// The transaction begins with its first look at the file.
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

// restart holds the writer, moves the last pages and has the next commit begin the log anew.
func (c *checkpoints) restart(ctx context.Context) error {
	conn, err := c.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Not broken off, or the next one would have no patience.
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

// pragma makes a checkpoint of a kind and notes how the log is after it.
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

// Log is how much the log of a SQLite file has, in bytes.
type Log struct {
	Bytes, Waiting int64 // Waiting is what of it is not in the file of the database yet
}

// Log returns how the log of a SQLite file was a moment ago; zero on Postgres.
func (s *Store) Log() Log {
	d, ok := s.dialect.(*sqliteDialect)
	if !ok || d.checkpoints == nil {
		return Log{}
	}
	return Log{Bytes: d.checkpoints.pages.Load() * logPage, Waiting: d.checkpoints.waiting.Load() * logPage}
}
