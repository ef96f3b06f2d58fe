package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// event is a worker's message to the demo on its standard output.
type event struct {
	Worker int    `json:"worker"`
	Token  int64  `json:"token"`
	Kind   string `json:"kind"` // granted, released, lost, refused
	Note   string `json:"note,omitempty"`
}

// work is a worker process: it repeatedly acquires the lock until SIGTERM.
func work(url, name, path string, id int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := coordinator.Open(url,
		coordinator.WithIdentity(fmt.Sprintf("worker %d, pid %d", id, os.Getpid())),
		coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))) // the demo prints the events instead
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	m, err := mutex.New(client, name)
	if err != nil {
		return err
	}
	w := worker{id: id, ledger: ledger{path}, out: json.NewEncoder(os.Stdout)}
	for ctx.Err() == nil {
		if err := w.once(ctx, m); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

type worker struct {
	id     int
	ledger ledger
	out    *json.Encoder
}

// once acquires the lock, writes to the ledger for a while, and releases the
// lock.
func (w worker) once(ctx context.Context, m *mutex.Mutex) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	token := int64(lock.Token())
	if err := w.write(token, "begin"); err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	w.tell(token, "granted", "")
	for range 4 {
		time.Sleep(40 * time.Millisecond)
		// Deliberately without a check of lock.Err(): a worker that was stopped
		// for longer than its TTL continues as if nothing had happened. The
		// ledger must refuse its write.
		if err := w.write(token, "work"); errors.Is(err, errStale) {
			w.tell(token, "refused", err.Error())
			<-lock.Context().Done()
			w.tell(token, "lost", context.Cause(lock.Context()).Error())
			return nil
		} else if err != nil {
			return errors.Join(err, lock.Unlock(ctx))
		}
	}
	if err := w.write(token, "end"); err != nil && !errors.Is(err, errStale) {
		return errors.Join(err, lock.Unlock(ctx))
	}
	if err := lock.Unlock(ctx); err != nil {
		w.tell(token, "lost", err.Error())
		return nil
	}
	w.tell(token, "released", "")
	return nil
}

func (w worker) write(token int64, kind string) error {
	return w.ledger.append(record{Worker: w.id, Token: token, Kind: kind})
}

func (w worker) tell(token int64, kind, note string) {
	_ = w.out.Encode(event{Worker: w.id, Token: token, Kind: kind, Note: note}) // the demo may have ended
}
