// Package audit shows the audit log, and writes refused changes to it. It counts repeated refusals,
// so that many of them do not fill the log.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/shared/domain"
)

const (
	// flushEvery is how often the counts are written.
	flushEvery = time.Second
	// noteTime bounds the write of a first refusal: its request waits no longer.
	noteTime = 500 * time.Millisecond
	// flushTime bounds the write of the counts, for which no request waits.
	flushTime = 5 * time.Second
	// maxKnown bounds the kinds of refusals in memory; refusals of further kinds are written one by one.
	maxKnown = 10_000
)

// Store stores the log. It adds up the counts of refusals with the same account, caller, action and
// error within a minute.
type Store interface {
	Audit(ctx context.Context, entries ...domain.AuditEntry) error
}

// Refusals logs refused changes. Of each kind in a minute, the first refusal is written before Note returns, and the
// number of further refusals within a second. If the first write fails, the entry waits in memory for the next flush. A
// killed process loses what waits in memory. If a write was stored but its answer came too late, the write is repeated,
// and its refusals are counted twice. With maxKnown kinds in memory, each refusal of another kind is written by itself,
// and is lost if that write fails. Run must be running.
type Refusals struct {
	store  Store
	logger *slog.Logger

	mu    sync.Mutex
	known map[kind]*refusal
}

// kind is what all refusals of one entry have in common.
type kind struct {
	account, sub, keyID, action, err string
	minute                           int64
}

// refusal is the first refusal of its kind, with the number of refusals that have not been written
// yet.
type refusal struct {
	entry   domain.AuditEntry
	waiting int
	writing bool // the first refusal is being written; if that fails, it waits for the next flush
}

// NewRefusals returns Refusals. They log to logger what could not be written.
func NewRefusals(store Store, logger *slog.Logger) *Refusals {
	return &Refusals{store: store, logger: logger, known: make(map[kind]*refusal)}
}

func minuteOf(at time.Time) int64 { return at.Unix() / 60 }

// Note logs a refused change, as of now.
func (r *Refusals) Note(ctx context.Context, e domain.AuditEntry) {
	e.At, e.Count = time.Now().UTC().Truncate(time.Microsecond), 1
	of := kind{e.Account, e.Caller.Sub, e.Caller.KeyID, e.Action, e.Error, minuteOf(e.At)}
	r.mu.Lock()
	if seen := r.known[of]; seen != nil {
		seen.waiting++
		r.mu.Unlock()
		return
	}
	first := &refusal{entry: e, writing: true}
	if len(r.known) < maxKnown {
		r.known[of] = first
	}
	r.mu.Unlock()
	// The refusal is written even if the caller disconnects before the answer.
	written := r.write(context.WithoutCancel(ctx), noteTime, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	first.writing = false
	if !written {
		first.waiting++
	}
}

// Run writes the counts until ctx ends, and the remaining ones after that.
func (r *Refusals) Run(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.flush(ctx)
		case <-ctx.Done():
			r.flush(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// flush writes the counts. Counts that can't be written now stay for the next time. A kind of an
// earlier minute is forgotten when all of its counts are written.
func (r *Refusals) flush(ctx context.Context) {
	minute := minuteOf(time.Now())
	var entries []domain.AuditEntry
	counted := map[*refusal]int{}
	r.mu.Lock()
	for of, seen := range r.known {
		switch {
		case seen.waiting > 0:
			e := seen.entry
			e.Count, counted[seen] = seen.waiting, seen.waiting
			seen.waiting = 0
			entries = append(entries, e)
		case of.minute != minute && !seen.writing:
			delete(r.known, of)
		}
	}
	r.mu.Unlock()
	if len(entries) == 0 || r.write(ctx, flushTime, entries...) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for seen, n := range counted {
		seen.waiting += n
	}
}

func (r *Refusals) write(ctx context.Context, within time.Duration, entries ...domain.AuditEntry) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := r.store.Audit(ctx, entries...)
	if err != nil {
		r.logger.Warn("refused changes can't be written to the audit log; trying again", "error", err, "entries", len(entries))
	}
	return err == nil
}
