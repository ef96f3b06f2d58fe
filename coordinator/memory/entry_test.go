package memory_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// history has the states of a queue, oldest first.
type history struct {
	svc    *memory.Service
	states [][]driver.Place
}

func (h *history) note() {
	var places []driver.Place
	for _, x := range h.svc.Snapshot(queue) {
		places = append(places, x.Place)
	}
	h.states = append(h.states, places)
}

// matches returns the indices of the states that a view matches.
func (h *history) matches(own driver.Place, view driver.View) (of []int) {
	for i, state := range h.states {
		at := slices.Index(state, own)
		if at >= 0 && slices.Equal(view.Ahead, state[:at]) && view.Last == (at == len(state)-1) {
			of = append(of, i)
		}
	}
	return of
}

// contenders are the contenders of a queue.
type contenders struct {
	sessions []session
	queued   []driver.Joined
	of       []int // index of the session of each
}

// step lets a contender join, leave or convert.
func (c *contenders) step(t *testing.T, random *rand.Rand) {
	t.Helper()
	i := 0
	if len(c.queued) > 0 {
		i = random.IntN(len(c.queued))
	}
	switch n := random.IntN(6); {
	case len(c.queued) < 3 || n == 0:
		s := random.IntN(len(c.sessions))
		c.queued, c.of = append(c.queued, join(t, c.sessions[s])), append(c.of, s)
	case n == 1 && len(c.queued) > 4:
		must(t, c.sessions[c.of[i]].Leave(t.Context(), queue, c.queued[i].Place))
		c.queued, c.of = slices.Delete(c.queued, i, i+1), slices.Delete(c.of, i, i+1)
	default:
		mode := map[string]string{"x": "r", "r": "x"}[c.queued[i].Place.Mode]
		place, err := c.sessions[c.of[i]].Convert(t.Context(), queue, c.queued[i], mode, nil)
		must(t, err)
		c.queued[i].Place = place
	}
}

func TestStaleViewShowsTheQueueAsItWasAtOneMoment(t *testing.T) {
	old := 0
	for seed := range uint64(100) {
		svc := memory.NewService(memory.WithStaleViews(seed))
		random := rand.New(rand.NewPCG(seed, 7))
		c, h := &contenders{}, &history{svc: svc}
		for range 3 {
			c.sessions = append(c.sessions, open(t, svc.Driver()))
		}
		for range 60 {
			c.step(t, random)
			h.note()
			for i, own := range c.queued {
				view, err := c.sessions[c.of[i]].Ahead(t.Context(), queue, own.Place)
				must(t, err)
				of := h.matches(own.Place, view)
				if len(of) == 0 {
					t.Fatalf("seed %d: the view of %+v matches no state: %+v\nnow: %+v", seed, own.Place, view, h.states[len(h.states)-1])
				}
				if of[len(of)-1] < len(h.states)-1 {
					old++
				}
			}
		}
	}
	if old < 1000 {
		t.Errorf("only %d views were stale", old)
	}
}

func TestEntryCallsRefuseInvalidArguments(t *testing.T) {
	svc := memory.NewService()
	s := open(t, svc.Driver())
	own, big := join(t, s), make([]byte, 64<<10+1)
	for name, call := range map[string]func() error{
		"same mode":      func() error { _, err := s.Convert(t.Context(), queue, own, own.Place.Mode, nil); return err },
		"no mode":        func() error { _, err := s.Convert(t.Context(), queue, own, "", nil); return err },
		"long mode":      func() error { _, err := s.Convert(t.Context(), queue, own, "abcdefghijklmnopq", nil); return err },
		"big conversion": func() error { _, err := s.Convert(t.Context(), queue, own, "r", big); return err },
		"big write":      func() error { return s.Write(t.Context(), queue, own.Place, big) },
		"big record":     func() error { _, err := s.SetRecord(t.Context(), queue, big, 0); return err },
		"empty record":   func() error { _, err := s.SetRecord(t.Context(), queue, nil, 0); return err },
		"record no name": func() error { _, err := s.SetRecord(t.Context(), "m", []byte("x"), 0); return err },
		"record wait":    func() error { _, err := s.Record(t.Context(), "m/a/b", 0); return err },
		"head wait":      func() error { _, err := s.Head(t.Context(), "m/", 0); return err },
	} {
		before := svc.Stats().Total()
		wantErr(t, call(), driver.ErrInvalid)
		if svc.Stats().Total() != before {
			t.Errorf("%s: a request was sent", name)
		}
	}
	if x := svc.Snapshot(queue)[0]; x.Place != own.Place || svc.Record("m").Version != 0 {
		t.Errorf("something was applied: %+v", x)
	}
	must(t, s.Write(t.Context(), queue, own.Place, big[1:]))
}

func TestEntryCallsCopyValues(t *testing.T) {
	svc := memory.NewService()
	s := open(t, svc.Driver())
	c, value := contender(), []byte("value")
	c.Value = value
	own, err := s.Join(t.Context(), queue, c)
	must(t, err)
	spoil := func() {
		copy(value, "XXXXX")
		list, err := s.List(t.Context(), queue, 0)
		must(t, err)
		clear(list[0].Value)
		head, err := s.Head(t.Context(), queue, driver.Any)
		must(t, err)
		clear(head.Value)
		r, err := s.Record(t.Context(), queue, driver.Any)
		must(t, err)
		clear(r.Value)
		clear(svc.Record(queue).Value)
	}
	want := func(what string, got []byte) {
		t.Helper()
		if !bytes.Equal(got, []byte("value")) {
			t.Errorf("%s: %q, want value", what, got)
		}
		copy(value, "value")
	}
	spoil()
	want("joined", svc.Snapshot(queue)[0].Value)
	must(t, s.Write(t.Context(), queue, own.Place, value))
	spoil()
	want("written", svc.Snapshot(queue)[0].Value)
	_, err = s.Convert(t.Context(), queue, own, "r", value)
	must(t, err)
	spoil()
	want("converted", svc.Snapshot(queue)[0].Value)
	_, err = s.SetRecord(t.Context(), queue, value, 0)
	must(t, err)
	spoil()
	want("record", svc.Record(queue).Value)
}
