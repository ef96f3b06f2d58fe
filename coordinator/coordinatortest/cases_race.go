package coordinatortest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// raceCases meet a conversion while it is made, over and over.
var raceCases = []testCase{
	{name: "M4/forget at the time of a conversion leaves nothing", body: forgetRaces},
	{name: "M3/of a leave and a conversion at once exactly one succeeds", body: leaveRaces},
	{name: "M3/a conversion that was given up may be repeated", body: conversionGivenUp},
	{name: "J6/nobody is alone or first beside one who converts", body: aloneRaces},
}

// race starts a conversion of a contender, and returns shortly before or after.
func (e *env) race(s session, line driver.Line, own driver.Joined) *outcome {
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	o := e.start(func() error {
		pause()
		_, err := s.Convert(e.soon(), line, own, "r", nil)
		return err
	})
	pause()
	return o
}

// forgetRaces: package coordinator withdraws one that it converts when its caller gives up.
func forgetRaces(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	stays := e.join(other, line)
	for range 20 {
		own := e.join(s, line)
		o := e.race(s, line, own)
		e.ok(s.Forget(e.soon(), line, own.Place.ID), "Forget")
		if err := e.ends(o, e.Patience, "Convert"); err != nil {
			e.is(err, "Convert of one who was forgotten at the same time", driver.ErrGone, driver.ErrUnavailable)
		}
		e.same(e.standing(s, line), []string{stays.Place.ID}, "after a forget at the time of a conversion the line has")
	}
}

// leaveRaces: both name the same entry, which is there for one of them.
func leaveRaces(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	stays := e.join(other, line)
	for range 20 {
		own := e.join(s, line)
		o := e.race(s, line, own)
		left := s.Leave(e.soon(), line, own.Place)
		converted := e.ends(o, e.Patience, "Convert")
		want := []string{stays.Place.ID}
		switch {
		case left == nil && errors.Is(converted, driver.ErrGone):
		case converted == nil && errors.Is(left, driver.ErrGone):
			want = append(want, own.Place.ID)
		default:
			e.fail("ErrGone for exactly one of the two", "Leave: %v, and Convert at the same time: %v", left, converted)
		}
		e.same(e.standing(s, line), want, "after a leave at the time of a conversion the line has")
		e.ok(s.Forget(e.soon(), line, own.Place.ID), "Forget")
	}
}

// conversionGivenUp: it may have been applied or not, or still be under way when it is called again.
func conversionGivenUp(e *env) {
	q := e.queue()
	for i := range 20 {
		mode := []string{"r", "x"}[i%2]
		_, _ = q.s.Convert(e.brief(), q.line, q.own, mode, nil)
		q.own = e.convertUntil(q.s, q.line, q.own, mode, "")
		time.Sleep(e.Settle / 20)
		e.showsNow(q.s, q.line, 1, q.own, "")
	}
}

// aloneRaces: to one who joins, too, the old entry is there or the new one.
func aloneRaces(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	own := e.join(s, line)
	var over atomic.Bool
	converter := e.start(func() (err error) {
		for i := 0; !over.Load() && err == nil; i++ {
			sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100))))
			own.Place, err = s.Convert(e.soon(), line, own, []string{"r", "x"}[i%2], nil)
		}
		return err
	})
	for range 20 {
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100))))
		e.refuse(other, line)
		j := e.join(other, line)
		if j.First {
			e.fail("First is false behind another", "Join behind one who converts returned First")
		}
		e.leave(other, line, j.Place)
	}
	over.Store(true)
	e.ok(e.ends(converter, e.Patience, "one who converts"), "one who converts")
	e.stands(other, line, own.Place.ID)
}
