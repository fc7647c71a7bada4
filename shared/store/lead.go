package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Lease is the right to be the one relay. It is held until Release, or until Lost says that the
// database has taken it back.
type Lease interface {
	Lost() <-chan struct{}
	Release()
}

// Lead tries to become the leader; false: another process leads. On SQLite, which has one process,
// it always succeeds.
func (s *Store) Lead(ctx context.Context) (Lease, bool, error) {
	lease, ok, err := s.dialect.lead(ctx)
	if err != nil {
		return nil, false, Wrap("take the lead", err)
	}
	return lease, ok, nil
}

// soleLease is the lease of a store that one process has to itself.
type soleLease struct{ lost chan struct{} }

func (l *soleLease) Lost() <-chan struct{} { return l.lost }

func (l *soleLease) Release() {}

const (
	leadLock = 0x5761796269 // "Waybi"
	dayLock  = 0x57617964   // "Wayd"
	// leadProbe is how often the leader checks whether its connection is alive, and how long the
	// answer may take. A closed connection is noticed at once.
	leadProbe = 2 * time.Second
)

// lead takes an advisory lock on a connection of its own. The lock lives as long as that connection.
func (d *postgresDialect) lead(ctx context.Context) (Lease, bool, error) {
	pooled, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	var ok bool
	if err := pooled.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(leadLock)).Scan(&ok); err != nil || !ok {
		pooled.Release()
		return nil, false, err
	}
	conn := pooled.Hijack()
	// A client on a machine that has died loses the lock within about 20 s.
	if _, err := conn.Exec(ctx, "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3"); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, false, err
	}
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Release calls it
	lease := &postgresLease{lost: make(chan struct{}), ended: make(chan struct{}), cancel: cancel}
	go lease.hold(watch, conn)
	return lease, true, nil
}

type postgresLease struct {
	lost, ended chan struct{}
	cancel      context.CancelFunc
	once        sync.Once
}

func (l *postgresLease) Lost() <-chan struct{} { return l.lost }

// Release gives up the lead and returns when the connection is closed.
func (l *postgresLease) Release() {
	l.once.Do(l.cancel)
	<-l.ended
}

// hold watches the connection until the lease is released or the connection is dead.
func (l *postgresLease) hold(ctx context.Context, conn *pgx.Conn) {
	defer close(l.ended)
	for isAlive(ctx, conn) {
		continue
	}
	released := ctx.Err() != nil
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadProbe)
	defer cancel()
	if released && !conn.IsClosed() {
		// Explicitly, because a server takes a moment to notice that a connection was closed.
		_, _ = conn.Exec(closing, "SELECT pg_advisory_unlock($1)", int64(leadLock))
	}
	_ = conn.Close(closing)
	if !released {
		close(l.lost)
	}
}

// isAlive waits for a sign that the connection has ended, and asks the server if there is none.
func isAlive(ctx context.Context, conn *pgx.Conn) bool {
	waiting, cancel := context.WithTimeout(ctx, leadProbe)
	_, err := conn.WaitForNotification(waiting)
	cancel()
	if err != nil && !pgconn.Timeout(err) {
		return false
	}
	if ctx.Err() != nil {
		return false // released
	}
	asking, cancel := context.WithTimeout(ctx, leadProbe)
	defer cancel()
	return conn.Ping(asking) == nil
}
