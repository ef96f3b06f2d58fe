package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/baton-go/baton/coordinator/driver"
)

// waiting is one kind of wait: it starts the call, whose end it returns, and
// the change that ends it.
type waiting func(t *testing.T, f *fake, s *session) (wait func(ctx context.Context) error, change func())

// waits are all kinds of waits on keys.
var waits = map[string]waiting{
	"of the predecessor": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		ahead, own := join(t, s, follower()), join(t, s, follower())
		return func(ctx context.Context) error {
			_, err := s.Follow(ctx, queue, own.Place, ahead.Place)
			return err
		}, func() { check(t, s.Pass(t.Context(), queue, ahead.Place)) }
	},
	"of one place": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		ahead := join(t, s, contender())
		return func(ctx context.Context) error { return s.Watch(ctx, queue, ahead.Place) },
			func() { check(t, s.Leave(t.Context(), queue, ahead.Place)) }
	},
	"of several places": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		a, b := join(t, s, contender()), join(t, s, contender())
		return func(ctx context.Context) error { return s.Watch(ctx, queue, a.Place, b.Place) },
			func() { check(t, s.Leave(t.Context(), queue, b.Place)) }
	},
	"of the head": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		first := join(t, s, contender())
		known := headOf(t, s).Version
		return func(ctx context.Context) error { return errOf(s.Head(ctx, queue, known)) },
			func() { check(t, s.Leave(t.Context(), queue, first.Place)) }
	},
	"of the first join": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		return func(ctx context.Context) error { return errOf(s.Head(ctx, queue, 0)) },
			func() { join(t, s, contender()) }
	},
	"of the record": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		known := setRecord(t, s, "one", 0)
		return func(ctx context.Context) error { return errOf(s.Record(ctx, queue, known)) },
			func() { setRecord(t, s, "two", known) }
	},
	"of the queue": func(t *testing.T, _ *fake, s *session) (func(context.Context) error, func()) {
		first := join(t, s, contender())
		return func(ctx context.Context) error {
				return s.WatchQueue(ctx, queue, func(places []driver.Place) bool { return len(places) > 0 })
			},
			func() { check(t, s.Leave(t.Context(), queue, first.Place)) }
	},
}

func errOf[T any](_ T, err error) error { return err }

// withWait runs a test with each kind of wait, in virtual time. The waiter is
// another session than the one that makes the changes.
func withWait(t *testing.T, test func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func())) {
	for name, prepare := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				s := open(t, f, c)
				wait, change := prepare(t, f, s)
				test(t, f, s, wait, change)
			})
		})
	}
}

// again repeats a call as the engine does.
func again(ctx context.Context, call func(context.Context) error) error {
	for {
		if err := call(ctx); !errors.Is(err, driver.ErrUnavailable) {
			return err
		}
	}
}

func inBackground(call func() error) <-chan outcome[any] {
	end := make(chan outcome[any], 1)
	go func() { end <- outcome[any]{err: call()} }()
	synctest.Wait()
	return end
}

// A member that stops to apply answers reads, pings and new watches, and its
// leader keeps the session. But it sends no events.
func TestNoWaitRestsOnAMemberThatStopsToApply(t *testing.T) {
	withWait(t, func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func()) {
		end := inBackground(func() error { return again(t.Context(), wait) })
		time.Sleep(s.TTL() * 10) // the watch is refreshed, and stays
		stillWaits(t, end)
		f.stall(2)
		change()
		time.Sleep(s.TTL() * 5 / 4) // a quarter for a read that the member does not answer
		if err := ended(t, end).err; err != nil {
			t.Error(err)
		}
	})
}

// The wait begins when the member is behind already. Its watch and its reads
// show the state of before.
func TestNoWaitBeginsForGoodOnAMemberThatStopsToApply(t *testing.T) {
	withWait(t, func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func()) {
		f.stall(2)
		end := inBackground(func() error { return again(t.Context(), wait) })
		change()
		time.Sleep(s.TTL() * 5 / 4)
		if err := ended(t, end).err; err != nil {
			t.Error(err)
		}
	})
}

// Some versions of etcd, and a member whose store hangs, take a watch and do
// not answer that it exists.
func TestNoWaitRestsOnAMemberThatDoesNotCreateItsWatch(t *testing.T) {
	withWait(t, func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func()) {
		f.stall(2)
		f.mute = true
		end := inBackground(func() error { return again(t.Context(), wait) })
		change()
		time.Sleep(2 * s.TTL())
		if err := ended(t, end).err; err != nil {
			t.Error(err)
		}
	})
}

// The end of a session is such a change, too.
func TestAWaiterNoticesTheEndOfItsSessionDespiteAStalledMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		ahead := join(t, open(t, f, c), contender()).Place
		end := awaitGone(t.Context(), s, ahead)
		synctest.Wait()
		f.stall(2)
		_, err := c.Revoke(t.Context(), s.Lease)
		check(t, err)
		time.Sleep(s.TTL())
		if err := ended(t, end).err; !errors.Is(err, driver.ErrSessionLost) {
			t.Error(err)
		}
	})
}

// TestWaitsMoveOnUntilAMemberFollows: new streams go to the members in turn,
// but other requests take turns, too.
func TestWaitsMoveOnUntilAMemberFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		ahead := join(t, s, contender()).Place
		end := awaitGone(t.Context(), s, ahead)
		synctest.Wait()
		f.stall(2)
		f.behind["1"], f.behind["2"] = true, true
		check(t, s.Leave(t.Context(), queue, ahead))
		time.Sleep(2 * s.TTL())
		check(t, ended(t, end).err)
		f.watching(t, 1, "/sessions/") // and its stream is kept by the sentinel's watch
		for w := range f.watchers {
			if w.stream != "3" {
				t.Errorf("a watch on stream %q", w.stream)
			}
		}
	})
}

// TestSessionsOfAClientMoveTogether: they share a stream before and after.
func TestSessionsOfAClientMoveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		d, err := FromClient(c)
		check(t, err)
		var sessions []driver.Session
		for range 3 {
			s, err := d.Open(t.Context(), 10*time.Second)
			check(t, err)
			defer s.Close(context.Background())
			sessions = append(sessions, s)
		}
		ahead := join(t, sessions[0], contender()).Place
		ends := make(chan error, len(sessions))
		for _, s := range sessions {
			go func() {
				err := s.Watch(t.Context(), queue, ahead)
				for errors.Is(err, driver.ErrUnavailable) { // it has read at the member that stalls
					err = s.Watch(t.Context(), queue, ahead)
				}
				ends <- err
			}()
			time.Sleep(time.Millisecond)
		}
		f.stall(2)
		check(t, sessions[0].Leave(t.Context(), queue, ahead))
		time.Sleep(12 * time.Second)
		for range sessions {
			check(t, <-ends)
		}
		f.watching(t, len(sessions), "sessions/")
		streams := map[string]bool{}
		for w := range f.watchers {
			if streams[w.stream] = true; f.behind[w.stream] {
				t.Errorf("a watch on stream %q, at the member that stalls", w.stream)
			}
		}
		if len(streams) != 1 {
			t.Errorf("watches on streams %v", streams)
		}
	})
}

// TestWaitsStayOnASlowMember that catches up while it is asked.
func TestWaitsStayOnASlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		ahead := join(t, s, contender()).Place
		end := awaitGone(t.Context(), s, ahead)
		synctest.Wait()
		for range 500 {
			catchUp := f.stall(2)
			write(t, s, ahead, "w")
			time.Sleep(s.TTL() / 16)
			catchUp()
			time.Sleep(s.TTL() / 97)
		}
		stillWaits(t, end)
		for w := range f.watchers {
			if w.stream != "" {
				t.Errorf("a watch on stream %q", w.stream)
			}
		}
	})
}

// TestWaitsOfASessionShareTheirRefresh, and a session without waits sends none.
func TestWaitsOfASessionShareTheirRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttls = 30
		f, c := newFake(t)
		s := open(t, f, c)
		var watches atomic.Int64
		f.opens = func() { watches.Add(1) }
		spent := func(change func()) (requests, opened int) {
			before := watches.Load()
			n := f.sent(func() {
				for range ttls {
					change()
					time.Sleep(s.TTL())
				}
			})
			return n, int(watches.Load() - before)
		}
		quiet := func() {}
		if n, w := spent(quiet); n+w != 0 {
			t.Errorf("%d requests and %d watches of a session that does not wait", n, w)
		}
		ahead := join(t, s, contender()).Place
		ctx, cancel := context.WithCancel(t.Context())
		var ends []<-chan outcome[any]
		for range 100 {
			ends = append(ends, awaitGone(ctx, s, ahead))
		}
		synctest.Wait()
		if n, w := spent(quiet); n > ttls*3/2 || w > 1 {
			t.Errorf("%d requests and %d watches of 100 waits in %d TTLs", n, w, ttls)
		}
		if n, w := spent(func() { put(t, c, "other") }); n-ttls > ttls*3/2 || w > ttls*3/2 {
			t.Errorf("%d requests and %d watches of 100 waits in %d TTLs with changes", n-ttls, w, ttls)
		}
		cancel()
		synctest.Wait()
		for _, end := range ends {
			ended(t, end)
		}
		time.Sleep(s.TTL())
		if n, w := spent(quiet); n+w != 0 {
			t.Errorf("%d requests and %d watches after the waits", n, w)
		}
	})
}

// A member takes the read that follows the creation of a watch, and never
// answers it. The next call asks another one.
func TestNoWaitRestsOnAnUnansweredRead(t *testing.T) {
	withWait(t, func(t *testing.T, f *fake, s *session, wait func(context.Context) error, change func()) {
		f.stall(1000)
		f.mute, f.behind[""], f.turn = true, false, f.others
		end := inBackground(func() error { return wait(t.Context()) })
		time.Sleep(s.TTL() / 2)
		if err := ended(t, end).err; !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		next := inBackground(func() error { return wait(t.Context()) })
		stillWaits(t, next)
		change()
		if err := ended(t, next).err; err != nil {
			t.Error(err)
		}
	})
}

// The same for the read that follows an event: the head has left, and the next
// one is read.
func TestHeadRestsOnNoUnansweredReadAfterAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		first, second := join(t, s, contender()), join(t, s, contender())
		h, err := s.Head(t.Context(), queue, driver.Any)
		check(t, err)
		end := inBackground(func() error { return errOf(s.Head(t.Context(), queue, h.Version)) })
		stillWaits(t, end)
		f.stall(1000)
		f.mute, f.behind[""], f.turn = true, false, f.others
		check(t, s.Leave(t.Context(), queue, first.Place))
		time.Sleep(s.TTL() / 2)
		if err := ended(t, end).err; !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("the read that is not answered: %v", err)
		}
		next, err := s.Head(t.Context(), queue, h.Version) // asks another member
		if check(t, err); next.Place != second.Place {
			t.Errorf("head %v, want %v", next.Place, second.Place)
		}
	})
}

// Authentication was switched on after the stream was opened, which therefore
// has no token, or the token has expired. A client with a user gets one with
// another stream.
func TestWatchesLeaveAStreamWithoutAToken(t *testing.T) {
	for _, test := range []struct {
		user   string
		reason error
		old    int // how many streams have no token
		want   error
	}{
		{user: "u", reason: rpctypes.ErrGRPCUserEmpty, old: 1},
		{user: "u", reason: rpctypes.ErrGRPCInvalidAuthToken, old: 1},
		{user: "u", reason: rpctypes.ErrGRPCAuthOldRevision, old: 1},
		{user: "u", reason: rpctypes.ErrGRPCUserEmpty, old: 9, want: driver.ErrUnavailable},
		{user: "u", reason: rpctypes.ErrGRPCPermissionDenied, old: 1, want: driver.ErrRefused},
		{user: "", reason: rpctypes.ErrGRPCUserEmpty, old: 1, want: driver.ErrRefused},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, c := newFake(t)
			c.Username = test.user
			s := open(t, f, c)
			first := join(t, s, contender()).Place
			f.refuses = func(stream string) error {
				if n, _ := strconv.Atoi(stream); n >= test.old {
					return nil
				}
				return errors.New("rpc error: code = Unauthenticated desc = " + rpctypes.ErrorDesc(test.reason))
			}
			end := awaitGone(t.Context(), s, first)
			if test.want != nil {
				if err := ended(t, end).err; !errors.Is(err, test.want) {
					t.Errorf("user %q, %v: %v; want %v", test.user, test.reason, err, test.want)
				}
				return
			}
			stillWaits(t, end)
			check(t, s.Leave(t.Context(), queue, first))
			check(t, ended(t, end).err)
			f.watching(t, 1, "/sessions/") // on the new stream, too
		})
	}
}
