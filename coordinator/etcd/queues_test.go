package etcd

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestQueuesReadsOnePageOfALongQueue, and continues behind the queue.
func TestQueuesReadsOnePageOfALongQueue(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	put := func(key string) {
		t.Helper()
		_, err := c.Txn(t.Context()).Then(clientv3.OpPut("ns/./"+key, "")).Commit()
		check(t, err)
	}
	for i := range 10 * queuesPage {
		put(fmt.Sprintf("mutex/b/%016x-%016x-x", 7, i))
	}
	for i := range queuesPage { // sessions and records have no entries below
		put(fmt.Sprintf("sessions/%016x-%016x", i, i))
		put(fmt.Sprintf("mutex/r%d+record", i))
	}
	for _, key := range []string{
		"mutex/a/foreign", "mutex/b+tail", "mutex/b-/+0-x", "mutex/c/+0000000000000001-0000000000000002-x-0000000000000003",
		"mutex/markers/0000000000000001-0000000000000002-x~", "mutex/z/deep/er", "rwlock/b/0", "nothing", "/b/c", "mutex//c",
	} {
		put(key)
	}
	var queues []driver.Queue
	n := f.sent(func() {
		var err error
		if queues, err = s.Queues(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	want := []driver.Queue{"mutex/a", "mutex/b", "mutex/b-", "mutex/c", "mutex/z", "rwlock/b"}
	if slices.Sort(queues); !slices.Equal(queues, want) {
		t.Errorf("queues %q, want %q", queues, want)
	}
	if n > 5 { // two pages of records, two of sessions, one that ends in the long queue
		t.Errorf("%d requests", n)
	}
}

// TestRemoveDeletesOnlyTheTailKeyThatNamesTheEntry: without another tail key, a
// join would skip the entries between.
func TestRemoveDeletesOnlyTheTailKeyThatNamesTheEntry(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	var all []driver.Joined
	for range 3 {
		x := contender()
		x.Follows = true
		j := join(t, s, x)
		all = append(all, j)
	}
	tail := func() bool {
		r, err := c.Get(t.Context(), s.keys.Tail(queue), clientv3.WithKeysOnly())
		return err == nil && len(r.Kvs) == 1
	}
	remove := func(j driver.Joined) {
		t.Helper()
		n := f.sent(func() {
			check(t, s.Remove(t.Context(), queue, j.Place.Key, j.Token))
		})
		if n != 1 {
			t.Errorf("%d requests", n)
		}
	}
	if remove(all[1]); !tail() {
		t.Error("the tail key was deleted with an entry that it does not name")
	}
	if remove(all[2]); tail() {
		t.Error("the tail key names a removed entry")
	}
	remove(all[0])
}

// TestRemoveOfAnEarlierLifeDeletesNothing: names are reused, so the key alone
// does not identify the entry.
func TestRemoveOfAnEarlierLifeDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, x := open(t, f, c), contender()
		old := join(t, s, x)
		check(t, s.Leave(t.Context(), queue, old.Place))
		now, err := s.Join(t.Context(), queue, x)
		check(t, err)
		if err := s.Remove(t.Context(), queue, old.Place.Key, old.Token); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Remove of an earlier entry of the same name: %v", err)
		}
		if err := s.Check(t.Context(), queue, now.Place.Key, now.Token); err != nil {
			t.Errorf("Remove of the present entry: %v", err)
		}
	})
}
