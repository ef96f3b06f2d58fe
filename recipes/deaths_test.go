package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestDeadWaiterAnywhereLeavesTheOrderOfTheRest: the first, one in the middle
// and the last waiter die at once, silently. The rest is served in order, and
// nobody is admitted when the one directly ahead of it, who did not hold, goes.
func TestDeadWaiterAnywhereLeavesTheOrderOfTheRest(t *testing.T) {
	worlds(t, ways(), 4, func(w place, ask way) {
		ctx := context.Background()
		h := w.take(ask, 0)
		const victim = 1
		dead := []*call{w.queue(ctx, ask, victim)}
		b := w.queue(ctx, ask, 2)
		dead = append(dead, w.queue(ctx, ask, victim))
		c := w.queue(ctx, ask, 3)
		dead = append(dead, w.queue(ctx, ask, victim))
		w.links[victim].Cut()
		time.Sleep(ttl + time.Second)
		if n := len(w.svc.Snapshot(ask.queue)); n != 3 {
			w.Fatalf("%d in the queue", n)
		}
		if b.over() || c.over() || h.err() != nil {
			w.Errorf("admitted beside the holder: %v, %v; it says %v", b.over(), c.over(), h.err())
		}
		w.giveBack(h)
		first := w.granted(b)
		if c.over() {
			w.Error("the second of the rest was admitted beside the first")
		}
		w.giveBack(first)
		second := w.granted(c)
		if second.token <= first.token {
			w.Errorf("token %d after %d", second.token, first.token)
		}
		w.giveBack(second)
		for _, d := range dead {
			if <-d.done; !lost(d.err) {
				w.Errorf("a dead waiter got %v", d.err)
			}
		}
		w.links[victim].Heal()
	})
}

// TestWriterThatDiesBetweenReadersLetsThemTogether: those behind it need not
// wait for those ahead of it.
func TestWriterThatDiesBetweenReadersLetsThemTogether(t *testing.T) {
	worlds(t, []way{reading}, 3, func(w place, read way) {
		write := ways()[1]
		ahead := w.take(read, 0)
		writer := w.queue(context.Background(), write, 1)
		one, two := w.queue(context.Background(), read, 2), w.queue(context.Background(), read, 0)
		w.links[1].Cut()
		if one.over() || two.over() {
			w.Fatal("readers went past a writer whose session lives")
		}
		time.Sleep(ttl + time.Second)
		if !one.over() || !two.over() || ahead.err() != nil {
			w.Errorf("a TTL after the writer's death: %v, %v; the reader ahead says %v", one.over(),
				two.over(), ahead.err())
		}
		for _, h := range []held{ahead, w.granted(one), w.granted(two)} {
			w.giveBack(h)
		}
		if <-writer.done; !lost(writer.err) {
			w.Errorf("the dead writer got %v", writer.err)
		}
		w.links[1].Heal()
	})
}

// TestDeadReaderHoldsAWriterUpForOneTTL: and for no longer, and not for less.
func TestDeadReaderHoldsAWriterUpForOneTTL(t *testing.T) {
	worlds(t, []way{reading}, 3, func(w place, read way) {
		living, dead := w.take(read, 0), w.take(read, 1)
		writer := w.queue(context.Background(), ways()[1], 2)
		died := time.Now()
		w.links[1].Cut()
		w.giveBack(living)
		h := w.granted(writer)
		if took := writer.at.Sub(died); took != ttl {
			w.Errorf("the writer was admitted after %v", took)
		}
		if !lost(dead.err()) {
			w.Errorf("the dead reader says %v", dead.err())
		}
		w.giveBack(h)
		w.links[1].Heal()
	})
}

// TestCallGivenUpAtTheMomentOfItsGrant walks the end of the caller's context
// over the grant: before the holder lets go, while the notice is under way,
// between the look and its answer, after it. The call returns a hold or an
// error, and with an error there is nothing in the queue.
func TestCallGivenUpAtTheMomentOfItsGrant(t *testing.T) {
	worlds(t, append(ways(), reading), 2, func(w place, ask way) {
		first := ask
		if ask.name == reading.name {
			first = ways()[1]
		}
		granted, refused := 0, 0
		for step := range 60 {
			h := w.take(first, 0)
			w.links[1].Delay(time.Millisecond, time.Millisecond)
			const release = 20 * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(),
				release-5*time.Millisecond+time.Duration(step)*250*time.Microsecond)
			a := w.queue(ctx, ask, 1)
			time.Sleep(release)
			w.giveBack(h)
			<-a.done
			cancel()
			switch {
			case a.err == nil && a.held.err() == nil:
				granted++
				w.giveBack(a.held)
			case a.err == nil:
				w.Errorf("step %d: a hold that says %v", step, a.held.err())
			default:
				refused++
			}
			time.Sleep(time.Second)
			if n := len(w.svc.Snapshot(ask.queue)); n != 0 {
				w.Fatalf("step %d: %v, and %d in the queue", step, a.err, n)
			}
		}
		if granted == 0 || refused == 0 {
			w.Errorf("%d granted, %d refused: the steps are on one side of the grant", granted,
				refused)
		}
		w.links[1].Delay(0, 0)
		w.giveBack(w.take(ask, 1))
	})
}

// pausing is a driver whose sessions bring the answers of one kind of request
// when the session is over, as a process that was stopped finds them in its
// buffers.
type pausing struct {
	*memory.Driver
	op memory.Op
}

type pausingSession struct {
	driver.Session
	op memory.Op
}

func (d *pausing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return &pausingSession{s, d.op}, err
}

func (s *pausingSession) pause(op memory.Op) {
	if op == s.op {
		time.Sleep(2 * s.TTL())
	}
}

// Renew fails from the beginning: a process that is stopped renews nothing.
func (s *pausingSession) Renew(context.Context) error { return driver.ErrUnavailable }

func (s *pausingSession) Join(ctx context.Context, queue driver.Queue,
	c driver.Contender) (driver.Joined, error) {
	j, err := s.Session.Join(ctx, queue, c)
	s.pause(memory.OpJoin)
	return j, err
}

func (s *pausingSession) Ahead(ctx context.Context, queue driver.Queue,
	own driver.Place) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, queue, own)
	s.pause(memory.OpAhead)
	return v, err
}

// TestGrantThatComesOutOfAPauseIsNone: between the answer that grants and the
// look at it the process was stopped for longer than its session lives.
func TestGrantThatComesOutOfAPauseIsNone(t *testing.T) {
	for _, tt := range []struct {
		op      memory.Op
		request recipes.Request
	}{
		{memory.OpJoin, write}, // alone in the queue
		{memory.OpAhead, read}, // behind another reader
	} {
		t.Run(string(tt.op), func(t *testing.T) {
			inWorld(t, func(w world) {
				first := w.hold(w.a, w.Context(), read)
				if tt.op == memory.OpJoin {
					w.release(first)
				} else {
					defer w.release(first)
				}
				client, err := coordinator.New(&pausing{w.svc.Driver(), tt.op}, quiet)
				if err != nil {
					w.Fatal(err)
				}
				queue, err := recipes.NewQueue(client, "test", "queue")
				if err != nil {
					w.Fatal(err)
				}
				h, err := queue.Acquire(w.Context(), tt.request)
				if h != nil {
					w.Errorf("got a hold of token %d", h.Token())
				}
				wantErr(t, err, coordinator.ErrSessionLost)
				if err := client.Close(context.Background()); err != nil {
					w.Error(err)
				}
			})
		})
	}
}
