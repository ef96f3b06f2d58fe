package etcd

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// readsLag lets the reads of a session, in turn with another member, go to one
// that stays behind, the next one first. Its watches are at the other.
func (f *fake) readsLag() {
	f.stall(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for stream := range f.behind {
		f.behind[stream] = false
	}
	f.turn = 1
}

// TestViewIsAsNewAsWhatAWaitHasShown is V1: the caller would wait again for the
// entry that it knows to be gone.
func TestViewIsAsNewAsWhatAWaitHasShown(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, s *session, own, ahead driver.Place) error{
		"Watch": func(ctx context.Context, s *session, _, ahead driver.Place) error {
			return s.Watch(ctx, queue, ahead)
		},
		"Follow": func(ctx context.Context, s *session, own, ahead driver.Place) error {
			return errOf(s.Follow(ctx, queue, own, ahead))
		},
		"WatchQueue": func(ctx context.Context, s *session, _, _ driver.Place) error {
			return s.WatchQueue(ctx, queue, func(places []driver.Place) bool { return len(places) > 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				s, other := open(t, f, c), open(t, f, c)
				first, me := join(t, other, follower()), join(t, s, follower())
				end := inBackground(func() error { return wait(t.Context(), s, me.Place, first.Place) })
				f.readsLag()
				check(t, other.Leave(t.Context(), queue, first.Place))
				check(t, ended(t, end).err)
				if v := ahead(t, s, me.Place); len(v.Ahead) != 0 {
					t.Errorf("ahead: %+v", v.Ahead)
				}
			})
		})
	}
}

// TestViewIsAsNewAsTheLastRefresh: while a session waits, it reads the newest
// revision once in two thirds of a TTL.
func TestViewIsAsNewAsTheLastRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, other := open(t, f, c), open(t, f, c)
		first, me := join(t, other, contender()), join(t, s, contender())
		ctx, cancel := context.WithCancel(t.Context())
		end := inBackground(func() error { return errOf(s.Record(ctx, queue, 0)) })
		f.readsLag()
		check(t, other.Leave(t.Context(), queue, first.Place))
		time.Sleep(s.TTL())
		f.mu.Lock()
		f.turn = 1
		f.mu.Unlock()
		if v := ahead(t, s, me.Place); len(v.Ahead) != 0 {
			t.Errorf("ahead: %+v", v.Ahead)
		}
		cancel()
		<-end
	})
}

// TestNoWaitRestsOnTheReadOfARefresh: it may go to the member that does not
// apply, and is not answered.
func TestNoWaitRestsOnTheReadOfARefresh(t *testing.T) {
	withWait(t, func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func()) {
		end := inBackground(func() error { return again(t.Context(), wait) })
		f.stall(2)
		change()
		f.mu.Lock()
		f.turn = 2 // the third is that of the stalled one
		f.mu.Unlock()
		time.Sleep(s.TTL() * 5 / 4)
		if err := ended(t, end).err; err != nil {
			t.Error(err)
		}
	})
}

// TestQueuesAreListedByAQuorum: an operator must not see fewer locks than are
// held.
func TestQueuesAreListedByAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		defer f.lag()()
		join(t, s, contender())
		queues, err := s.Queues(t.Context())
		if check(t, err); !slices.Equal(queues, []driver.Queue{queue}) {
			t.Errorf("queues: %v", queues)
		}
	})
}
