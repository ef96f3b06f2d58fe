package engine

import (
	"context"
	"log/slog"
	"time"
)

// logger passes records to the user's handler through an outbox. All of the
// handler's methods run there, also Enabled: a handler may guard it with the
// mutex that a blocked Handle holds.
type logger struct {
	lines *outbox[line]
	to    slog.Handler
}

// line is a record, and the handler that it is for.
type line struct {
	to     slog.Handler
	ctx    context.Context
	record slog.Record
}

// newLogger returns a logger that never blocks, and its outbox.
func newLogger(l *slog.Logger) (*slog.Logger, *outbox[line]) {
	lines := &outbox[line]{deliver: line.write}
	lines.report = func(dropped int) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn,
			"baton: log lines were dropped; the log handler was blocked or slow", 0)
		r.AddAttrs(slog.Int("dropped", dropped))
		line{l.Handler(), context.Background(), r}.write()
	}
	return slog.New(&logger{lines, l.Handler()}), lines
}

func (l line) write() {
	if l.to.Enabled(l.ctx, l.record.Level) {
		_ = l.to.Handle(l.ctx, l.record)
	}
}

func (l *logger) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the values of ctx, which may have ended when the line is
// written.
func (l *logger) Handle(ctx context.Context, r slog.Record) error {
	l.lines.put(line{l.to, context.WithoutCancel(ctx), r.Clone()})
	return nil
}

func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{l.lines, l.to.WithAttrs(attrs)}
}

func (l *logger) WithGroup(name string) slog.Handler {
	return &logger{l.lines, l.to.WithGroup(name)}
}
