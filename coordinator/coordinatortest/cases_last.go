package coordinatortest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var lastCases = []testCase{
	{name: "Last/the end of a line shows nobody behind", body: lastAtEnd},
	{name: "Last/shows that those behind have left", body: lastAgain},
	{name: "V3/last is false in front of others", body: notLast},
	{name: "V3/last is false in front of a converted entry", body: notLastConverted},
	{name: "V3/last is never true while there is always somebody behind", body: lastNeverEarly},
}

// last checks Last. The view must be bound to show it: by the own join, or by what Watch has told.
func (e *env) last(s session, line driver.Line, own driver.Joined, want bool, where string) {
	if view := e.view(s, line, own.Place); view.Last != want {
		e.fail(fmt.Sprintf("Last is %t", want), "Last is %t %s", view.Last, where)
	}
}

// lastAtEnd: nobody joins after the one who looks, so every view it may see shows nobody behind.
func lastAtEnd(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.join(a, line)
	e.last(a, line, own, true, "alone in the line")
	own = e.join(b, line)
	e.last(b, line, own, true, "at the end of the line")
	own = e.join(a, line)
	e.last(a, line, own, true, "at the end, with another of the same session ahead")
	own = e.convert(a, line, own, "r", "")
	e.last(a, line, own, true, "at the end, converted")
	e.write(a, line, own.Place, "value")
	e.setRecord(b, line, "record", 0)
	e.last(a, line, own, true, "at the end of a line with a record")
}

// lastAgain: what Watch has told of a leaving behind is in the view.
func lastAgain(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	own := e.join(a, line)
	for _, mode := range []string{"x", "r"} {
		behind := e.join(b, line)
		if mode != "x" {
			behind = e.convert(b, line, behind, mode, "")
		}
		e.catchUp(a, b, line)
		e.last(a, line, own, false, "in front of another")
		e.leave(b, line, behind.Place)
		e.fires(e.watch(a, line, behind.Place), "the one behind left")
		e.last(a, line, own, true, "after the one behind has left")
	}
}

func notLast(e *env) {
	q := e.queue()
	e.catchUp(q.ahead, q.behind, q.line)
	e.last(q.ahead, q.line, q.first, false, "at the head of three")
	e.catchUp(q.s, q.behind, q.line)
	e.last(q.s, q.line, q.own, false, "in the middle of three")
	e.leave(q.behind, q.line, q.last.Place)
	e.catchUp(q.ahead, q.s, q.line)
	e.last(q.ahead, q.line, q.first, false, "at the head of two")
}

// notLastConverted: a converted entry is the newest of the service, wherever it stands.
func notLastConverted(e *env) {
	q := e.queue()
	q.last = e.convert(q.behind, q.line, q.last, "r", "")
	e.catchUp(q.s, q.ahead, q.line)
	e.last(q.s, q.line, q.own, false, "in front of a converted one")
	q.own = e.convert(q.s, q.line, q.own, "r", "")
	e.catchUp(q.s, q.ahead, q.line)
	e.last(q.s, q.line, q.own, false, "when it was converted after the one behind")
	e.last(q.behind, q.line, q.last, true, "at the end, behind one that was converted later")
}

// lastNeverEarly: those behind relieve each other, and each comes, or is converted, before the one before it goes.
func lastNeverEarly(e *env) {
	s, line := e.open(), e.line()
	others := []session{e.open(), e.open()}
	first := e.join(others[0], line)
	own := e.join(s, line)
	behind := e.join(others[0], line)
	e.catchUp(s, others[1], line)
	pause := func() { sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) }
	relay := e.start(func() error {
		for i := range 30 {
			next, err := others[(i+1)%2].Join(e.soon(), line, contender())
			if err != nil {
				return fmt.Errorf("Join: %w", err)
			}
			pause()
			if err := others[i%2].Leave(e.soon(), line, behind.Place); err != nil {
				return fmt.Errorf("Leave: %w", err)
			}
			pause()
			if next.Place, err = others[(i+1)%2].Convert(e.soon(), line, next, "r", nil); err != nil {
				return fmt.Errorf("Convert: %w", err)
			}
			behind = next
		}
		return nil
	})
	for running := true; running; pause() {
		select {
		case <-relay.done:
			running = false
		default:
		}
		view := e.view(s, line, own.Place)
		e.same(ids(view.Ahead), []string{first.Place.ID}, "ahead while others relieve each other behind:")
		if view.Last {
			e.fail("Last is false", "Last is true although there was always somebody behind")
		}
	}
	e.ok(relay.err, "others who relieve each other")
}
