package coordinatortest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var convertCases = []testCase{
	{name: "M1/a conversion keeps id, session, token and order", body: conversionKeeps},
	{name: "M1/a converted place has a view at once", body: convertedHasView},
	{name: "M1/a view shows the old entry or the new one", body: viewsOfConversions},
	{name: "M1/order is kept over a restart", needs: []Lever{Restart}, body: conversionOverRestart},
	{name: "M1/a converted entry goes with its session", needs: []Lever{Expire}, body: convertedGoesWithSession},
	{name: "M2/the old place has left", body: conversionIsLeaving},
	{name: "M2/the old place has left while disconnected", needs: []Lever{Hold, Reset}, body: conversionWhileDisconnected},
	{name: "List/a limit counts converted entries where they stand", body: listConverted},
	{name: "Key/a conversion gives a new key", body: conversionKeys},
}

// queue is a contender between two others, each of another session.
type queue struct {
	line             driver.Line
	ahead, s, behind session
	first, own, last driver.Joined
}

func (e *env) queue() *queue {
	q := &queue{line: e.line(), ahead: e.open(), s: e.open(), behind: e.open()}
	q.first, q.own, q.last = e.join(q.ahead, q.line), e.join(q.s, q.line), e.join(q.behind, q.line)
	return q
}

func (q *queue) ids() []string {
	return []string{q.first.Place.ID, q.own.Place.ID, q.last.Place.ID}
}

// conversionKeeps converts twice in the middle of a line, then at its head and at its end: services that make a
// new entry put it where the newest stand, and count its token anew.
func conversionKeeps(e *env) {
	q := e.queue()
	for mode, value := range map[string]string{"r": "value", "abcdefghij012345": strings.Repeat("\x00\xffü", 16<<10)} { // the largest allowed
		q.own = e.convert(q.s, q.line, q.own, mode, value)
		e.showsNow(q.s, q.line, 1, q.own, value)
		for _, s := range []session{q.ahead, q.behind} {
			e.shows(s, q.line, q.own, value)
			e.same(e.standing(s, q.line), q.ids(), "the order is kept:")
		}
	}
	q.first = e.convert(q.ahead, q.line, q.first, "r", "")
	q.last = e.convert(q.behind, q.line, q.last, "r", "")
	next := e.join(q.ahead, q.line)
	if next.Token <= q.last.Token {
		e.fail(fmt.Sprintf("a token above %d", q.last.Token), "Join after conversions got token %d", next.Token)
	}
	want := []driver.Place{q.first.Place, q.own.Place, q.last.Place}
	if view := e.view(q.ahead, q.line, next.Place); !slices.Equal(view.Ahead, want) {
		e.fail(fmt.Sprintf("%+v, as Convert returned them", want), "Ahead: %+v", view.Ahead)
	}
	e.rising(q.s, q.line, map[string]driver.Token{
		q.first.Place.ID: q.first.Token, q.own.Place.ID: q.own.Token, q.last.Place.ID: q.last.Token, next.Place.ID: next.Token,
	})
}

// convertedHasView: a replica that has not heard of the conversion yet must not be asked, or its answer not be
// taken for "gone".
func convertedHasView(e *env) {
	q := e.queue()
	for i := range 20 {
		q.own = e.convert(q.s, q.line, q.own, []string{"r", "x"}[i%2], "")
		e.same(e.ahead(q.s, q.line, q.own.Place), []string{q.first.Place.ID}, "ahead of the converted one:")
	}
}

// viewsOfConversions: one that is there twice is waited for in vain, and one that is not there is overtaken.
func viewsOfConversions(e *env) {
	q := e.queue()
	order := q.ids()
	var over atomic.Bool
	views := func(s session, own driver.Joined, want []string) func() error {
		return func() error {
			for !over.Load() && sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50)))) {
				view, err := s.Ahead(e.soon(), q.line, own.Place)
				if err != nil {
					return fmt.Errorf("Ahead: %w", err)
				}
				if got := ids(view.Ahead); !slices.Equal(got, want) {
					return fmt.Errorf("a view during conversions shows %s, want %s", sprint(got), sprint(want))
				}
			}
			return nil
		}
	}
	var running []*outcome
	for _, s := range []session{q.ahead, q.s} { // two more at the end, one of them beside the one who converts
		own := e.join(s, q.line)
		running = append(running, e.start(views(s, own, e.standing(s, q.line)[:3+len(running)])))
	}
	all := e.standing(q.s, q.line) // for one who does not stand in the line
	running = append(running, e.start(views(q.s, driver.Joined{}, all)), e.start(views(q.behind, q.last, order[:2])))
	running = append(running, e.start(func() error {
		for !over.Load() && sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50)))) {
			entries, err := q.ahead.List(e.soon(), q.line, 3)
			if err != nil {
				return fmt.Errorf("List: %w", err)
			}
			if got := entryIDs(entries); !slices.Equal(got, order) {
				return fmt.Errorf("a list during conversions shows %s, want %s", sprint(got), sprint(order))
			}
		}
		return nil
	}))
	for i := range 24 {
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
		q.own = e.convert(q.s, q.line, q.own, []string{"r", "x", "p3"}[i%3], "")
	}
	over.Store(true)
	for _, o := range running {
		e.ok(e.ends(o, e.Patience, "one who looks"), "one who looks")
	}
}

// conversionOverRestart: what says that the new entry has the old one's place must be written down.
func conversionOverRestart(e *env) {
	q := e.queue()
	q.own = e.convert(q.s, q.line, q.own, "r", "value")
	e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	next := e.joinUntil(q.behind, q.line, contender())
	e.same(e.standing(q.behind, q.line), append(q.ids(), next.Place.ID), "the order is kept:")
	e.showsNow(q.behind, q.line, 1, q.own, "value")
}

// convertedGoesWithSession: the new entry needs the tie to the session that the old one had.
func convertedGoesWithSession(e *env) {
	d := e.duel()
	d.first = e.convert(d.ahead, d.line, d.first, "r", "")
	e.stands(d.behind, d.line, d.first.Place.ID, d.second.Place.ID)
	w := e.watch(d.behind, d.line, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.fires(w, "the session of a converted place ended")
	e.stands(d.behind, d.line, d.second.Place.ID)
}

// conversionIsLeaving: who waited for a writer must look again when it has become a reader.
func conversionIsLeaving(e *env) {
	d := e.duel()
	old := d.first.Place
	w := e.watch(d.behind, d.line, old)
	e.quiet(w, "nothing")
	d.first = e.convert(d.ahead, d.line, d.first, "r", "")
	e.fires(w, "a conversion")
	if view := e.view(d.behind, d.line, d.second.Place); !slices.Equal(view.Ahead, []driver.Place{d.first.Place}) {
		e.fail(fmt.Sprintf("the place that Convert returned: %+v", d.first.Place),
			"after Watch has told of the conversion Ahead shows %+v", view.Ahead)
	}
	e.fires(e.watch(d.behind, d.line, old), "an earlier conversion")
	w = e.watch(d.behind, d.line, d.first.Place)
	e.quiet(w, "an earlier conversion")
	e.leave(d.ahead, d.line, d.first.Place)
	e.fires(w, "the converted one left")
}

// conversionWhileDisconnected: when the client comes back the contender is in the mode that it had before, by an entry
// that may look like the one that is waited for.
func conversionWhileDisconnected(e *env) {
	d := e.duel()
	d.first = e.convert(d.ahead, d.line, d.first, "r", "")
	w := e.watch(d.behind, d.line, d.first.Place)
	d.cut()
	d.client.Link.Reset()
	d.first = e.convert(d.ahead, d.line, d.first, "x", "")
	d.first = e.convert(d.ahead, d.line, d.first, "r", "")
	if e.has(Compact) {
		e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
	}
	e.settle()
	d.client.Link.Reset()
	d.client.Link.Heal()
	e.fires(w, "conversions while its client was disconnected")
}

// conversionKeys: back in its first mode a contender has a third entry, not its first one.
func conversionKeys(e *env) {
	q := e.queue()
	seen := map[string]bool{q.own.Place.Key: true}
	for i := range 6 {
		q.own = e.convert(q.s, q.line, q.own, []string{"r", "x"}[i%2], "")
		if seen[q.own.Place.Key] {
			e.fail("a new key for each entry", "key %q is used again by a conversion", q.own.Place.Key)
		}
		seen[q.own.Place.Key] = true
	}
}

// listConverted: entries that were converted, and in another order than that in which they stand, stand between others
// that were not.
func listConverted(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	var all []driver.Joined
	for i := range 7 {
		all = append(all, e.join([]session{a, b}[i%2], line))
	}
	for _, i := range []int{5, 4, 1, 2, 5} {
		s := []session{a, b}[i%2]
		all[i] = e.convert(s, line, all[i], "m"+all[i].Place.Mode, "")
	}
	e.leave(a, line, e.join(a, line).Place) // so that a lists what b has done before
	var want []string
	for limit := 1; limit <= len(all); limit++ {
		want = append(want, all[limit-1].Place.ID)
		entries, err := a.List(e.soon(), line, limit)
		e.ok(err, "List")
		e.same(entryIDs(entries), want, fmt.Sprintf("List with limit %d has", limit))
		if last := entries[limit-1]; last.Place != all[limit-1].Place || last.Token != all[limit-1].Token {
			e.fail(fmt.Sprintf("%+v with token %d", all[limit-1].Place, all[limit-1].Token), "List has %s", sprintEntries(entries[limit-1:]))
		}
	}
}
