package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
)

// newLock returns the lock of a client. It replaces
// coordinator.Open("etcd://…") or "zk://…" and rwlock.New in these examples.
func newLock(svc *memory.Service, identity string) *rwlock.RWLock {
	c, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(identity), quiet)
	if err != nil {
		log.Fatal(err)
	}
	l, err := rwlock.New(c, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func Example() {
	ctx := context.Background()
	client, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	catalogue, err := rwlock.New(client, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	err = catalogue.Do(ctx, func(ctx context.Context, _ *rwlock.Lock) error {
		fmt.Println("no other process reads or writes now")
		return nil
	})
	fmt.Println(err)
	err = catalogue.RDo(ctx, func(ctx context.Context, _ *rwlock.Lock) error {
		fmt.Println("others may read now, but not write")
		return nil
	})
	fmt.Println(err)
	// Output:
	// no other process reads or writes now
	// <nil>
	// others may read now, but not write
	// <nil>
}

// Readers share the lock. A writer holds it alone; readers behind the writer in
// the queue wait for it.
func ExampleRWLock_RLock() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob, carol := newLock(svc, "alice"), newLock(svc, "bob"), newLock(svc, "carol")

	a, err := alice.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	b, err := bob.RLock(ctx)
	fmt.Println("bob reads as well:", err)

	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = carol.Do(ctx, func(context.Context, *rwlock.Lock) error {
			fmt.Println("carol writes, and readers:", a.Err(), "and", b.Err())
			return nil
		})
	}()
	_ = a.Unlock(ctx)
	_ = b.Unlock(ctx)
	<-written
	// Output:
	// bob reads as well: <nil>
	// carol writes, and readers: released and released
}

// A writer becomes a reader: it reads what it wrote, and others may read it
// too.
func ExampleLock_Unlock_downgrade() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newLock(svc, "alice"), newLock(svc, "bob")

	w, err := alice.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r, err := alice.RLock(w.Context()) // within the write lock: no request, the same token
	fmt.Println("same grant:", r.Token() == w.Token(), err)

	fmt.Println("downgraded:", w.Unlock(ctx))
	fmt.Println("write lock:", context.Cause(w.Context()), "- read lock:", r.Err())

	b, err := bob.TryRLock(ctx)
	fmt.Println("bob reads:", err)
	_, err = bob.TryLock(ctx)
	fmt.Println("bob writes:", errors.Is(err, coordinator.ErrTaken))
	fmt.Println(b.Unlock(ctx), r.Unlock(ctx))
	// Output:
	// same grant: true <nil>
	// downgraded: <nil>
	// write lock: released - read lock: <nil>
	// bob reads: <nil>
	// bob writes: true
	// <nil> <nil>
}

// Two readers that both want to write would wait for each other for ever. So
// Lock returns an error, and the read lock stays held.
func ExampleRWLock_Lock_upgrade() {
	ctx := context.Background()
	alice := newLock(memory.NewService(), "alice")

	r, err := alice.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = alice.Lock(r.Context())
	fmt.Println(err)
	fmt.Println(errors.Is(err, rwlock.ErrUpgrade), r.Err())

	// Instead: unlock, lock, and read again.
	_ = r.Unlock(ctx)
	w, err := alice.Lock(ctx)
	fmt.Println(w.Writer(), err)
	// Output:
	// baton: lock "catalogue": invalid: a read lock cannot become a write lock: unlock it first
	// true <nil>
	// true <nil>
}

func ExampleRWLock_TryLock() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newLock(svc, "alice"), newLock(svc, "bob")

	if _, err := alice.TryRLock(ctx); err != nil {
		log.Fatal(err)
	}
	_, err := bob.TryLock(ctx)
	var taken *recipes.TakenError
	if errors.As(err, &taken) {
		fmt.Println("taken by", taken.Holder.Identity)
	}
	// Output:
	// taken by alice
}

func ExampleRWLock_Contenders() {
	ctx := context.Background()
	svc := memory.NewService()
	alice, bob := newLock(svc, "alice"), newLock(svc, "bob")

	for _, l := range []*rwlock.RWLock{alice, bob} {
		if _, err := l.RLock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	all, err := alice.Contenders(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range all {
		fmt.Printf("%s: writer %v, holding %v\n", c.Identity, c.Writer, c.Holding)
	}
	// Output:
	// alice: writer false, holding true
	// bob: writer false, holding true
}
