package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// follow collects the results of a follower until ctx ends: the payload of each
// contender, "-" for an empty queue.
func follow(ctx context.Context, l *recipes.Queue) <-chan []string {
	got := make(chan []string, 1)
	f := l.Follow()
	go func() {
		var seen []string
		for {
			c, ok, err := f.Next(ctx)
			switch {
			case err != nil:
				got <- append(seen, fmt.Sprint(err))
				return
			case !ok:
				seen = append(seen, "-")
			default:
				seen = append(seen, string(c.Payload))
			}
		}
	}()
	return got
}

// follows runs a test with a follower on the second client, and checks its
// results.
func follows(t *testing.T, f func(w world), want ...string) {
	t.Helper()
	inWorld(t, func(w world) {
		ctx, cancel := context.WithCancelCause(context.Background())
		got := follow(ctx, w.b.queue)
		synctest.Wait()
		f(w)
		synctest.Wait()
		cancel(errors.New("end"))
		if seen := <-got; !slices.Equal(seen, append(want, "end")) {
			t.Errorf("shown: %q, want %q", seen, want)
		}
	})
}

// show is a request with a payload.
func show(payload string) recipes.Request { w := write; w.Payload = []byte(payload); return w }

func TestFollowerShowsEachChangeOfTheFirstAndNothingElse(t *testing.T) {
	follows(t, func(w world) {
		h := w.hold(w.a, w.Context(), show("one"))
		synctest.Wait()
		wantErr(w.T, h.Write(w.Context(), []byte("two")))
		synctest.Wait()
		before := w.svc.Stats()
		ctx, cancel := context.WithCancel(w.Context())
		go func() { _, _ = w.a.queue.Acquire(ctx, show("waiter")) }()
		synctest.Wait()
		cancel() // a waiter that joins and leaves is no change
		synctest.Wait()
		if after := w.svc.Stats(); after.Wakeups != before.Wakeups ||
			after.Requests[memory.OpHead] != before.Requests[memory.OpHead] {
			w.Errorf("a waiter woke the follower: %+v, then %+v", before, after)
		}
		w.release(h)
		synctest.Wait()
		w.release(w.hold(w.a, w.Context(), show("three")))
	}, "-", "one", "two", "-", "three", "-")
}

// TestFollowerThatIsSlowSkipsToTheLast change.
func TestFollowerThatIsSlowSkipsToTheLast(t *testing.T) {
	inWorld(t, func(w world) {
		f := w.b.queue.Follow()
		_, ok, err := f.Next(w.Context())
		if ok || err != nil {
			w.Fatalf("an empty queue: %v, %v", ok, err)
		}
		for range 10 {
			w.release(w.hold(w.a, w.Context(), write))
		}
		h := w.hold(w.a, w.Context(), show("last"))
		if c, ok, err := f.Next(w.Context()); !ok || err != nil || string(c.Payload) != "last" ||
			c.Token != h.Token() {
			w.Errorf("then: %+v, %v, %v", c, ok, err)
		}
		w.release(h)
	})
}

func TestFollowerOutlivesSessionsAndOutages(t *testing.T) {
	follows(t, func(w world) {
		h := w.hold(w.a, w.Context(), show("one"))
		synctest.Wait()
		w.svc.Expire(w.session(w.b).ID())
		time.Sleep(time.Second)
		w.svc.Stop()
		time.Sleep(3 * time.Second)
		w.svc.Start()
		time.Sleep(time.Second)
		w.b.link.Cut()
		time.Sleep(time.Minute) // its session is lost, and it cannot open another
		w.release(h)
		h = w.hold(w.a, w.Context(), show("two"))
		w.b.link.Reset()
		w.b.link.Heal()
		time.Sleep(2 * time.Second)
		w.release(h)
	}, "-", "one", "two", "-")
}

func TestFollowerEndsWhenItsClientIsClosed(t *testing.T) {
	inWorld(t, func(w world) {
		got := follow(context.Background(), w.b.queue)
		synctest.Wait()
		check(w, w.b.client.Close(w.Context()))
		if seen := <-got; len(seen) != 2 || seen[1] != `baton: observe "queue": client is closed` {
			w.Errorf("shown: %q", seen)
		}
	})
}

func TestFollowersWatchOneEntryEach(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), show("one"))
		ctx, cancel := context.WithCancel(w.Context())
		var all []<-chan []string
		for range 100 {
			all = append(all, follow(ctx, w.b.queue))
		}
		synctest.Wait()
		if st := w.svc.Stats(); st.Watches != 100 || st.Requests[memory.OpHead] != 200 {
			w.Errorf("100 followers: %+v", st)
		}
		w.release(h)
		synctest.Wait()
		cancel()
		for _, got := range all {
			if seen := <-got; len(seen) != 3 {
				w.Errorf("shown: %q", seen)
			}
		}
	})
}

// past is a driver whose sessions show the heads of a script each, as lagging
// members can. At the end of a script its session is lost; at the end of the
// last one nothing changes any more.
type past struct {
	*memory.Driver
	scripts [][]driver.Head
	newest  driver.Token // of the heads so far
	fails   error        // of the first write of a record
}

type pastSession struct {
	coordinatortest.Full
	of     *past
	script []driver.Head
	last   driver.Head
}

// Capabilities are the session's, with what is replaced.
func (s *pastSession) Capabilities() driver.Capabilities { return s.Offer(s) }

func (d *past) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	script := d.scripts[0]
	d.scripts = d.scripts[1:]
	return &pastSession{coordinatortest.WithCapabilities(s), d, script, driver.Head{}}, nil
}

// SetRecord of any version makes the session catch up.
func (s *pastSession) SetRecord(ctx context.Context, q driver.Queue, value []byte, known driver.Version) (
	driver.Version, error,
) {
	if err := s.of.fails; err != nil {
		s.of.fails = nil
		return 0, err
	}
	for i, h := range s.script {
		if h.Token >= s.of.newest {
			s.script = s.script[i:]
			break
		}
	}
	return s.Full.SetRecord(ctx, q, value, known)
}

func (s *pastSession) Head(ctx context.Context, _ driver.Queue, known driver.Version) (driver.Head,
	error) {
	for len(s.script) > 0 {
		s.last = s.script[0]
		s.script = s.script[1:]
		s.of.newest = max(s.of.newest, s.last.Token)
		if s.last.Version != known {
			return s.last, nil
		}
	}
	if known == driver.Any {
		return s.last, nil
	}
	if len(s.of.scripts) > 0 {
		s.of.Service().Expire(s.ID())
	}
	<-ctx.Done()
	return driver.Head{}, ctx.Err()
}

func TestFollowerShowsNoEarlierHead(t *testing.T) {
	at := func(token int64, version int64, value string) driver.Head {
		return driver.Head{Entry: driver.Entry{Token: driver.Token(token), Value: []byte(value)},
			Version: driver.Version(version)}
	}
	var empty driver.Head
	a, a2, b, c := at(5, 5, "a"), at(5, 6, "a2"), at(7, 7, "b"), at(9, 9, "c")
	for _, tt := range []struct {
		name    string
		scripts [][]driver.Head
		want    []string
	}{
		{"a lagging member that catches up", [][]driver.Head{{a, b, c}, {a, b, c}},
			[]string{"a", "b", "c"}},
		{"a head that has left, or has not", [][]driver.Head{{a, empty}, {a, empty, b}},
			[]string{"a", "-", "a", "-", "b"}},
		{"a head that has not left, by three sessions", [][]driver.Head{{a}, {empty}, {a}},
			[]string{"a", "-", "a"}},
		{"two sessions behind, and the next token is the next number",
			[][]driver.Head{{a, empty}, {a, empty, at(6, 6, "next")}},
			[]string{"a", "-", "a", "-", "next"}},
		{"an emptiness of the past", [][]driver.Head{{a}, {empty, a}}, []string{"a", "-", "a"}},
		{"an earlier empty queue, and the head before it",
			[][]driver.Head{{b}, {a, empty, b, empty, c}}, []string{"b", "-", "c"}},
		{"another payload", [][]driver.Head{{a}, {a2}}, []string{"a", "a2"}},
		{"nothing new", [][]driver.Head{{a}, {a}, {a, a2}, {a2}}, []string{"a", "a2"}},
		{"an empty queue for a long time", [][]driver.Head{{empty}, {empty}, {empty, a}}, []string{"-", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &past{memory.NewService().Driver(), tt.scripts, 0, nil}
				client, l := queueOn(t, d)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("end"))
				defer cancel()
				if seen := <-follow(ctx, l); !slices.Equal(seen, append(tt.want, "end")) {
					t.Errorf("shown: %q, want %q", seen, tt.want)
				}
				check(t, client.Close(t.Context()))
			})
		})
	}
}

// TestFollowerGoesOnIfItCannotConfirmAHead: the service refuses the write, the
// layout has no records, as that of etcd's package concurrency, or the first
// reply is lost.
func TestFollowerGoesOnIfItCannotConfirmAHead(t *testing.T) {
	for _, fails := range []error{driver.ErrRefused, driver.ErrInvalid, driver.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			at := func(token int64) driver.Head {
				return driver.Head{Version: driver.Version(token), Entry: driver.Entry{
					Token: driver.Token(token), Value: []byte(strconv.Itoa(int(token)))}}
			}
			d := &past{memory.NewService().Driver(), [][]driver.Head{{at(7)}, {at(5), at(9)}}, 0, fails}
			client, l := queueOn(t, d)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("end"))
			defer cancel()
			if seen := <-follow(ctx, l); !slices.Equal(seen, []string{"7", "9", "end"}) {
				t.Errorf("%v: shown: %q", fails, seen)
			}
			check(t, client.Close(t.Context()))
		})
	}
}

// replaced is a driver whose service can be replaced by an empty one.
type replaced struct {
	*memory.Driver
	now atomic.Pointer[memory.Driver]
}

// Open opens a session at the present service.
func (d *replaced) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	return d.now.Load().Open(ctx, ttl)
}

// Close leaves the service to the other client.
func (d *replaced) Close(context.Context) error { return nil }

// TestFollowerShowsLeadersAfterTheServiceLostItsData: tokens begin anew, and
// every later leader is shown, as by a new follower. In a layout of other
// clients there are no records.
func TestFollowerShowsLeadersAfterTheServiceLostItsData(t *testing.T) {
	t.Run("records", func(t *testing.T) {
		testDataLoss(t, func(d *replaced) driver.Driver { return d })
	})
	t.Run("no records", func(t *testing.T) {
		testDataLoss(t, func(d *replaced) driver.Driver { return noRecords{d} })
	})
}

// noRecords is a service without records.
type noRecords struct{ driver.Driver }

func (d noRecords) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return noRecordsSession{s}, err
}

type noRecordsSession struct{ driver.Session }

func (noRecordsSession) SetRecord(context.Context, driver.Queue, []byte, driver.Version) (driver.Version, error) {
	return 0, driver.ErrInvalid
}

func testDataLoss(t *testing.T, with func(*replaced) driver.Driver) {
	synctest.Test(t, func(t *testing.T) {
		d := &replaced{Driver: memory.NewService().Driver()}
		d.now.Store(d.Driver)
		watcher, l := queueOn(t, with(d))
		client, other := queueOn(t, d)
		hold := func(payload string) *recipes.Hold {
			t.Helper()
			h, err := other.Acquire(t.Context(), show(payload))
			check(t, err)
			return h
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("end"))
		defer cancel()
		for range 10 {
			check(t, hold("old").Release(t.Context()))
		}
		hold("last")
		got := follow(ctx, l)
		time.Sleep(time.Second)
		old := d.Service()
		d.now.Store(memory.NewService().Driver())
		old.Stop()
		for _, id := range old.Sessions() {
			old.Expire(id)
		}
		time.Sleep(20 * time.Second)
		h := hold("new")
		time.Sleep(time.Second)
		check(t, h.Release(t.Context()))
		time.Sleep(time.Second)
		hold("newer")
		if seen := <-got; !slices.Equal(seen, []string{"last", "-", "new", "-", "newer", "end"}) {
			t.Errorf("shown: %q", seen)
		}
		check(t, watcher.Close(t.Context()))
		check(t, client.Close(t.Context()))
	})
}

// TestFollowerShowsALeaderWithTheVersionOfAnEarlierOne: at a service that has
// lost its data, versions begin anew. The same clients that do the same again
// can make a head with the version of the last one.
func TestFollowerShowsALeaderWithTheVersionOfAnEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, empty := memory.NewService(), memory.NewService()
		at := func() (*replaced, *coordinator.Client, *recipes.Queue) {
			d := &replaced{Driver: old.Driver()}
			d.now.Store(d.Driver)
			c, q := queueOn(t, d)
			return d, c, q
		}
		first, client, leads := at()
		second, watcher, watches := at()
		_, err := leads.Acquire(t.Context(), show("old"))
		check(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("end"))
		defer cancel()
		got := follow(ctx, watches)
		synctest.Wait()
		first.now.Store(empty.Driver())
		second.now.Store(empty.Driver())
		sessions := old.Sessions()
		old.Stop()
		old.Expire(sessions[0]) // that of the leader, which is the first at the new service, too
		synctest.Wait()
		_, err = leads.Acquire(t.Context(), show("new"))
		check(t, err)
		old.Expire(sessions[1])
		if seen := <-got; !slices.Equal(seen, []string{"old", "new", "end"}) {
			t.Errorf("shown: %q", seen)
		}
		check(t, watcher.Close(t.Context()))
		check(t, client.Close(t.Context()))
	})
}

// TestFollowerPausesWhileEachSessionIsLostAtOnce.
func TestFollowerPausesWhileEachSessionIsLostAtOnce(t *testing.T) {
	inWorld(t, func(w world) {
		ctx, cancel := context.WithTimeoutCause(w.Context(), 10*time.Second, errors.New("end"))
		defer cancel()
		const most = 100
		var lost atomic.Int64
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op != memory.OpHead {
				return memory.Fate{}
			}
			if lost.Add(1) > most {
				cancel() // no time passes between them
			}
			return memory.Fate{Err: driver.ErrSessionLost}
		})
		if seen := <-follow(ctx, w.b.queue); !slices.Equal(seen, []string{"end"}) {
			w.Errorf("shown: %q", seen)
		}
		if n := lost.Load(); n < 10 || n > most {
			w.Errorf("%d sessions in ten seconds", n)
		}
		for _, id := range w.svc.Sessions() { // the clients believe that they have ended
			w.svc.Expire(id)
		}
	})
}
