package count

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strconv"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// SQLite counts the work of another process on a file. Each commit is in the log and forces the log to the disk once.
// SQLite does not count the syncs of checkpoints, of which there is one for some 1000 pages.
type SQLite struct {
	db         *sql.DB
	log        *os.File
	statements *os.File
	lines      *bufio.Reader
	snapshot   *sql.Tx // while a snapshot is held, the log begins anew once at most
	mark       logMark
	done       Reading
}

// logMark is a place in the log.
type logMark struct {
	salts  [8]byte // of the log; they change each time that the log begins anew
	frames int64
}

// OpenSQLite begins to count. In the file statements is a line for each statement (cmd/waybill/counted.go).
func OpenSQLite(ctx context.Context, path, statements string) (_ *SQLite, err error) {
	s := &SQLite{done: New()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("count what SQLite does: %w", err), s.Close())
		}
	}()
	if s.log, err = os.Open(path + "-wal"); err != nil {
		return s, err
	}
	if s.statements, err = os.Open(statements); err != nil {
		return s, err
	}
	s.lines = bufio.NewReader(s.statements)
	query := url.Values{"_pragma": {"query_only(1)", "busy_timeout(1000)"}}
	if s.db, err = sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()); err != nil {
		return s, err
	}
	first := New()
	err = s.Read(ctx, &first)
	return s, err
}

// Close closes the files and the connection.
func (s *SQLite) Close() error {
	var err error
	if s.snapshot != nil {
		err = s.snapshot.Rollback()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	for _, file := range []*os.File{s.log, s.statements} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// Read adds the counts to a reading.
func (s *SQLite) Read(ctx context.Context, r *Reading) error {
	next, bytes, err := s.hold(ctx)
	if err != nil {
		return fmt.Errorf("count what SQLite does: %w", err)
	}
	err = errors.Join(s.readLog(), s.readStatements())
	if s.snapshot != nil {
		err = errors.Join(err, s.snapshot.Rollback())
	}
	s.snapshot = next
	if err != nil {
		return fmt.Errorf("count what SQLite does: %w", err)
	}
	s.done.Counts[RowBytes] = bytes
	maps.Copy(r.Counts, s.done.Counts)
	maps.Copy(r.Texts, s.done.Texts)
	return nil
}

// hold takes a snapshot, and reads the size of the rows in it.
func (s *SQLite) hold(ctx context.Context) (tx *sql.Tx, bytes float64, err error) {
	if tx, err = s.db.BeginTx(ctx, nil); err != nil {
		return nil, 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT coalesce(sum(payload), 0) FROM dbstat WHERE name IN ('events', 'deliveries')").Scan(&bytes)
	if err != nil {
		return nil, 0, errors.Join(err, tx.Rollback())
	}
	return tx, bytes, nil
}

// The log is a head and frames, each a head and a page.
const (
	logHead   = 32
	frameHead = 24
	pageSize  = 4096
)

// readLog goes through what was appended since the last time. In a frame's head are the page's number, the size of the
// file if it is the last one of a commit, and the log's salts.
func (s *SQLite) readLog() error {
	var head [logHead]byte
	if _, err := s.log.ReadAt(head[:], 0); err != nil {
		if errors.Is(err, io.EOF) { // nothing was written yet
			return nil
		}
		return err
	}
	if salts := [8]byte(head[16:24]); salts != s.mark.salts {
		s.mark = logMark{salts: salts}
	}
	for ; ; s.mark.frames++ {
		var frame [frameHead]byte
		_, err := s.log.ReadAt(frame[:], logHead+s.mark.frames*(frameHead+pageSize))
		if errors.Is(err, io.EOF) || err == nil && [8]byte(frame[8:16]) != s.mark.salts {
			return nil
		}
		if err != nil {
			return err
		}
		s.done.Counts[LogBytes] += frameHead + pageSize
		if binary.BigEndian.Uint32(frame[4:8]) > 0 {
			s.done.Counts[Commits]++
		}
	}
}

// engine matches statements of upkeep, which no event causes.
var engine = regexp.MustCompile(`^(PRAGMA|.* sqlite_schema )`)

// readStatements reads what has come into the file of statements since the last time.
func (s *SQLite) readStatements() error {
	for {
		line, err := s.lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return nil
		}
		var steps, pages float64
		var text string
		if err == nil {
			_, err = fmt.Sscanf(line, "%g %g %q", &steps, &pages, &text)
		}
		if err != nil {
			return fmt.Errorf("read statement %s: %w", strconv.Quote(line), err)
		}
		if !control.MatchString(text) && !engine.MatchString(text) {
			s.done.add(text, Did{N: 1, Work: steps + pages})
		}
	}
}
