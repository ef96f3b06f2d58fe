package virtualzk_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
	"github.com/baton-go/baton/rwlock"
)

// TestReaderLearnsOfAWriterBeyondAnOutage: the connection breaks, and with it
// the watch. Readers do not end the wait.
func TestReaderLearnsOfAWriterBeyondAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := virtualzk.New(virtualzk.Config{
			Members: 3, Tick: 200 * time.Millisecond, MinTimeout: 500 * time.Millisecond,
			MaxTimeout: time.Minute, Containers: 5 * time.Millisecond, Peers: time.Millisecond,
			Random: rand.New(rand.NewPCG(1, 2)),
		})
		client := func() (*rwlock.RWLock, *virtualzk.Link, *coordinator.Client) {
			link := e.Link("")
			d, err := zookeeper.OpenWith(e.URL("/x"), zookeeper.Dialer(link.Dial))
			must(t, err)
			c, err := coordinator.New(d, coordinator.WithTTL(10*time.Second),
				coordinator.WithLogger(slog.New(slog.DiscardHandler)))
			must(t, err)
			l, err := rwlock.New(c, "n")
			must(t, err)
			return l, link, c
		}
		l, link, c := client()
		o, _, other := client()
		r, err := l.RLock(t.Context())
		must(t, err)
		wanted := make(chan error, 1)
		go func() { wanted <- r.Wanted(t.Context()) }()
		reader, err := o.RLock(t.Context())
		must(t, err)
		time.Sleep(time.Second)
		link.Cut()
		link.Reset()
		written := make(chan error, 1)
		go func() {
			w, err := o.Lock(t.Context())
			if err == nil {
				err = w.Unlock(t.Context())
			}
			written <- err
		}()
		time.Sleep(time.Second)
		if len(wanted) != 0 {
			t.Errorf("Wanted returned %v without a writer in view", <-wanted)
		}
		link.Heal()
		if err := errors.Join(<-wanted, r.Err(), r.Unlock(t.Context()), reader.Unlock(t.Context()),
			<-written, c.Close(context.Background()), other.Close(context.Background())); err != nil {
			t.Error(err)
		}
		e.Close()
		time.Sleep(5 * time.Second) // the client library's Close waits for a reply
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
