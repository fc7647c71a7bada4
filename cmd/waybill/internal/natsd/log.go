package natsd

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// bridge passes the server's log lines to the logger. Text that may come from a client of the bus
// is an attribute, which the handler quotes.
type bridge struct {
	log  *slog.Logger
	full atomic.Bool // the server has reported a full disk

	mu    sync.Mutex
	fatal error
}

const text = "text"

func (b *bridge) Noticef(format string, v ...any) {
	b.log.Debug("nats-server", text, fmt.Sprintf(format, v...))
}

func (b *bridge) Warnf(format string, v ...any) {
	b.log.Warn("nats-server", text, fmt.Sprintf(format, v...))
}

func (b *bridge) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	if noSpace(line) {
		b.full.Store(true)
	}
	b.log.Error("nats-server", text, line)
}

// Fatalf must not end the process as the server's own logger does: others have to stop
// in order.
func (b *bridge) Fatalf(format string, v ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fatal = errors.Join(b.fatal, fmt.Errorf(format, v...))
	b.log.Error("nats-server", text, fmt.Sprintf(format, v...))
}

func (b *bridge) Debugf(string, ...any) {}
func (b *bridge) Tracef(string, ...any) {}

func (b *bridge) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fatal
}
