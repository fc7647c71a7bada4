// Package telemetry makes the logger, the metrics registry and the tracer of a process.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"
)

// NewLogger returns a logger that writes to w: as JSON, or as text for a person. Format is
// json, text, or auto, which is text when w is a terminal.
func NewLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit}))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// withUnit writes durations as 1.5s. Without it they would be numbers of nanoseconds without a unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}

// shortTime leaves the date out: a person who watches the log knows it.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(a.Key, a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// Stray returns a logger for the output of libraries to the standard log (slog.SetDefault sends it
// there). net/http quotes the bytes that a receiver sent without a request. That part is dropped,
// because text of a receiver must not be in the log. The rest becomes an attribute, which the handler
// quotes.
func Stray(log *slog.Logger) *slog.Logger { return slog.New(stray{log}) }

type stray struct{ log *slog.Logger }

const maxStray = 300 // bytes of a line that are kept

func (s stray) Enabled(ctx context.Context, level slog.Level) bool { return s.log.Enabled(ctx, level) }

func (s stray) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	if strings.HasPrefix(text, "Unsolicited response received") {
		s.log.DebugContext(ctx, "a server sent a response without a request")
		return nil
	}
	if len(text) > maxStray {
		text = text[:maxStray]
	}
	s.log.Log(ctx, r.Level, "a library wrote to the log", "text", text)
	return nil
}

// WithAttrs drops the attributes, which may contain anything.
func (s stray) WithAttrs([]slog.Attr) slog.Handler { return s }

// WithGroup ignores the group: there are no attributes.
func (s stray) WithGroup(string) slog.Handler { return s }
