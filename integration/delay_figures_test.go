package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

func init() { proc.Register("rest", restWorker) }

// restWorker locks a name that has a lock-delay, and reports it: url, name. It
// unlocks when it receives a message.
func restWorker(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	m, err := mutex.New(c, args[1], mutex.WithLockDelay(lockDelay))
	if err != nil {
		return err
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := io.Send(held{Token: int64(l.Token())}); err != nil {
		return err
	}
	var word string
	if err := io.Recv(ctx, &word); err != nil {
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return io.Send("unlocked")
}

// The delay also applies if the next waiter is killed meanwhile. A release has
// no delay.
func TestKilledHolderIsSucceededAfterTheLockDelay(t *testing.T) {
	const ttl = 2 * time.Second
	together(t, func(t *testing.T, s site) {
		name, client := servers.Name(t), s.client(t, 10*time.Second)
		m, err := mutex.New(client, name, mutex.WithLockDelay(lockDelay))
		if err != nil {
			t.Fatal(err)
		}
		holder := proc.Start(t, "rest", s.url(ttl), name)
		var h held
		holder.Recv(&h)
		next := proc.Start(t, "rest", s.url(ttl), name)
		awaitQueue(t, m, 2)
		got := granted(t.Context(), m)
		awaitQueue(t, m, 3)
		holder.Kill()
		awaitQueue(t, m, 2)
		lost := time.Now() // or a little before
		await.For(t.Context(), lockDelay/2)
		next.Kill()
		g := <-got
		if g.err != nil {
			t.Fatal(g.err)
		}
		if d := g.at.Sub(lost); d < lockDelay-time.Second { // the listing that noticed the loss may have been slow
			t.Errorf("granted %v after the loss, with a lock-delay of %v", d, lockDelay)
		}
		after := proc.Start(t, "rest", s.url(ttl), name)
		awaitQueue(t, m, 2)
		released := time.Now()
		unlock(t, g.lock)
		after.Recv(&h)
		if d := time.Since(released); d >= lockDelay {
			t.Errorf("granted %v after a release, which has no lock-delay", d)
		}
		after.Send("unlock")
		var word string
		after.Recv(&word)
		released = time.Now()
		unlock(t, lock(t, m))
		if d := time.Since(released); d >= lockDelay {
			t.Errorf("a lock takes %v after a release in another process", d)
		}
	})
}
