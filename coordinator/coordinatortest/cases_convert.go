package coordinatortest

import (
	"context"
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

// trio is a contender between two others, each of another session.
type trio struct {
	queue            driver.Queue
	ahead, s, behind session
	first, own, last driver.Joined
}

func (e *env) trio() *trio {
	q := &trio{queue: e.queue(), ahead: e.open(), s: e.open(), behind: e.open()}
	q.first, q.own, q.last = e.join(q.ahead, q.queue), e.join(q.s, q.queue), e.join(q.behind, q.queue)
	return q
}

func (q *trio) ids() []string {
	return []string{q.first.Place.ID, q.own.Place.ID, q.last.Place.ID}
}

// conversionKeeps converts twice in the middle of a queue, then at its head and
// at its end: services that make a new entry put it where the newest stand, and
// count its token anew.
func conversionKeeps(e *env) {
	q := e.trio()
	for mode, value := range map[string]string{"r": "value", "abcdefghij012345": strings.Repeat("\x00\xffü", 16<<10)} { // the largest allowed
		q.own = e.convert(q.s, q.queue, q.own, mode, value)
		e.showsNow(q.s, q.queue, 1, q.own, value)
		for _, s := range []session{q.ahead, q.behind} {
			e.shows(s, q.queue, q.own, value)
			e.same(e.standing(s, q.queue), q.ids(), "the order is kept:")
		}
	}
	q.first = e.convert(q.ahead, q.queue, q.first, "r", "")
	q.last = e.convert(q.behind, q.queue, q.last, "r", "")
	next := e.join(q.ahead, q.queue)
	if next.Token <= q.last.Token {
		e.fail(fmt.Sprintf("a token above %d", q.last.Token), "Join after conversions got token %d", next.Token)
	}
	want := []driver.Place{q.first.Place, q.own.Place, q.last.Place}
	if view := e.view(q.ahead, q.queue, next.Place); !slices.Equal(view.Ahead, want) {
		e.fail(fmt.Sprintf("%+v, as Convert returned them", want), "Ahead: %+v", view.Ahead)
	}
	e.rising(q.s, q.queue, map[string]driver.Token{
		q.first.Place.ID: q.first.Token, q.own.Place.ID: q.own.Token, q.last.Place.ID: q.last.Token, next.Place.ID: next.Token,
	})
}

// convertedHasView: a replica that has not heard of the conversion yet must not
// be asked, or its answer not be taken for "gone".
func convertedHasView(e *env) {
	q := e.trio()
	for i := range 20 {
		q.own = e.convert(q.s, q.queue, q.own, []string{"r", "x"}[i%2], "")
		e.same(e.ahead(q.s, q.queue, q.own.Place), []string{q.first.Place.ID}, "ahead of the converted one:")
	}
}

// viewsOfConversions: one that is there twice is waited for in vain, and one
// that is not there is overtaken.
func viewsOfConversions(e *env) {
	q := e.trio()
	order := q.ids()
	var over atomic.Bool
	views := func(s session, own driver.Joined, want []string) func() error {
		return func() error {
			for !over.Load() && sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50)))) {
				view, err := s.Ahead(e.soon(), q.queue, own.Place)
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
		own := e.join(s, q.queue)
		running = append(running, e.start(views(s, own, e.standing(s, q.queue)[:3+len(running)])))
	}
	all := e.standing(q.s, q.queue) // for one who does not stand in the queue
	running = append(running, e.start(views(q.s, driver.Joined{}, all)), e.start(views(q.behind, q.last, order[:2])))
	running = append(running, e.start(func() error {
		for !over.Load() && sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50)))) {
			entries, err := q.ahead.List(e.soon(), q.queue, 3)
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
		q.own = e.convert(q.s, q.queue, q.own, []string{"r", "x", "p3"}[i%3], "")
	}
	over.Store(true)
	for _, o := range running {
		e.ok(e.ends(o, e.Patience, "one who looks"), "one who looks")
	}
}

// conversionOverRestart: what says that the new entry has the old one's place must be written down.
func conversionOverRestart(e *env) {
	q := e.trio()
	q.own = e.convert(q.s, q.queue, q.own, "r", "value")
	e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	next := e.joinUntil(q.behind, q.queue, contender())
	e.same(e.standing(q.behind, q.queue), append(q.ids(), next.Place.ID), "the order is kept:")
	e.showsNow(q.behind, q.queue, 1, q.own, "value")
}

// convertedGoesWithSession: the new entry needs the tie to the session that the old one had.
func convertedGoesWithSession(e *env) {
	d := e.duel()
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.stands(d.behind, d.queue, d.first.Place.ID, d.second.Place.ID)
	w := e.watch(d.behind, d.queue, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.fires(w, "the session of a converted place ended")
	e.stands(d.behind, d.queue, d.second.Place.ID)
}

// conversionIsLeaving: who waited for a writer must look again when it has become a reader.
func conversionIsLeaving(e *env) {
	d := e.duel()
	old := d.first.Place
	w := e.watch(d.behind, d.queue, old)
	e.quiet(w, "nothing")
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	e.fires(w, "a conversion")
	if view := e.view(d.behind, d.queue, d.second.Place); !slices.Equal(view.Ahead, []driver.Place{d.first.Place}) {
		e.fail(fmt.Sprintf("the place that Convert returned: %+v", d.first.Place),
			"after Watch has told of the conversion Ahead shows %+v", view.Ahead)
	}
	e.fires(e.watch(d.behind, d.queue, old), "an earlier conversion")
	w = e.watch(d.behind, d.queue, d.first.Place)
	e.quiet(w, "an earlier conversion")
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(w, "the converted one left")
}

// conversionWhileDisconnected: when the client comes back the contender is in
// the mode that it had before, by an entry that may look like the one that is
// waited for.
func conversionWhileDisconnected(e *env) {
	d := e.duel()
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
	w := e.watch(d.behind, d.queue, d.first.Place)
	d.cut()
	d.client.Link.Reset()
	d.first = e.convert(d.ahead, d.queue, d.first, "x", "")
	d.first = e.convert(d.ahead, d.queue, d.first, "r", "")
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
	q := e.trio()
	seen := map[string]bool{q.own.Place.Key: true}
	for i := range 6 {
		q.own = e.convert(q.s, q.queue, q.own, []string{"r", "x"}[i%2], "")
		if seen[q.own.Place.Key] {
			e.fail("a new key for each entry", "key %q is used again by a conversion", q.own.Place.Key)
		}
		seen[q.own.Place.Key] = true
	}
}

// listConverted: entries that were converted, and in another order than that in
// which they stand, stand between others that were not.
func listConverted(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	var all []driver.Joined
	for i := range 7 {
		all = append(all, e.join([]session{a, b}[i%2], queue))
	}
	for _, i := range []int{5, 4, 1, 2, 5} {
		s := []session{a, b}[i%2]
		all[i] = e.convert(s, queue, all[i], "m"+all[i].Place.Mode, "")
	}
	e.leave(a, queue, e.join(a, queue).Place) // so that a lists what b has done before
	var want []string
	for limit := 1; limit <= len(all); limit++ {
		want = append(want, all[limit-1].Place.ID)
		entries, err := a.List(e.soon(), queue, limit)
		e.ok(err, "List")
		e.same(entryIDs(entries), want, fmt.Sprintf("List with limit %d has", limit))
		if last := entries[limit-1]; last.Place != all[limit-1].Place || last.Token != all[limit-1].Token {
			e.fail(fmt.Sprintf("%+v with token %d", all[limit-1].Place, all[limit-1].Token), "List has %s", sprintEntries(entries[limit-1:]))
		}
	}
}

// convertedCases check who can be converted, and that a converted entry is one like any other.
var convertedCases = []testCase{
	{name: "M3/a place that is gone is not converted", body: convertGone},
	{name: "M3/an older place of its own is not converted", body: convertOlder},
	{name: "M3/a stale conversion spares the same id joined later", body: convertSpares},
	{name: "M3/a foreign place is not converted", body: convertForeign},
	{name: "M3/a conversion may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: convertLostReply},
	{name: "J2/joining again finds the converted entry", body: joinAgainConverted},
	{name: "J3/nobody is first behind a converted entry", body: behindConverted},
	{name: "J6/a converted entry keeps others from being alone", body: aloneConverted},
	{name: "L1/a converted entry can be left", body: leaveConverted},
	{name: "L2/leave with the place before a conversion deletes nothing", body: leaveOlder},
	{name: "F1/forget removes a converted entry", body: forgetConverted},
	{name: "F1/forget removes what a lost conversion has made", needs: []Lever{Hold, Reset}, body: forgetLostConversion},
	{name: "C1/after close converted entries are gone", body: closeConverted},
}

// unconverted checks that Convert finds no entry and that the queue keeps the given ones.
func (e *env) unconverted(s session, queue driver.Queue, own driver.Joined, what string, keep ...driver.Place) {
	_, err := s.Convert(e.soon(), queue, own, "p7", []byte("converted"))
	e.is(err, what, driver.ErrGone)
	e.settle()
	e.hasPlaces(s, queue, what, keep...)
}

// hasPlaces checks the places of a queue.
func (e *env) hasPlaces(s session, queue driver.Queue, after string, want ...driver.Place) {
	entries := e.list(s, queue)
	same := len(entries) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = entries[i].Place == want[i]
	}
	if !same {
		e.fail("the queue has "+sprintPlaces(want), "after %s it has %s", after, sprintEntries(entries))
	}
}

func sprintPlaces(places []driver.Place) string {
	var all []driver.Entry
	for _, p := range places {
		all = append(all, driver.Entry{Place: p})
	}
	return sprintEntries(all)
}

// convertGone: an entry made for one who has left would block the queue.
func convertGone(e *env) {
	q := e.trio()
	others := []driver.Place{q.first.Place, q.last.Place}
	e.leave(q.s, q.queue, q.own.Place)
	e.unconverted(q.s, q.queue, q.own, "Convert of a place that was left", others...)
	q.own = e.join(q.s, q.queue)
	e.ok(q.s.Forget(e.soon(), q.queue, q.own.Place.ID), "Forget")
	e.unconverted(q.s, q.queue, q.own, "Convert of a place that was forgotten", others...)
	if e.has(Remove) {
		q.own = e.join(q.s, q.queue)
		e.ok(e.svc.Remove(e.soon(), q.queue, q.own.Place), "Remove of the harness")
		e.unconverted(q.s, q.queue, q.own, "Convert of a place that was removed", others...)
	}
	q.own = e.convert(q.s, q.queue, e.join(q.s, q.queue), "r", "")
	e.leave(q.s, q.queue, q.own.Place)
	e.unconverted(q.s, q.queue, q.own, "Convert of a place that was converted and left", others...)
}

// thereAndBack converts the one in the middle until it has been in each of two
// modes twice, and returns all places that it had before. The last of them look
// like the present one but for their keys.
func (e *env) thereAndBack(q *trio) (older []driver.Joined) {
	for _, mode := range []string{"r", "x", "r"} {
		older = append(older, q.own)
		q.own = e.convert(q.s, q.queue, q.own, mode, "")
	}
	return older
}

// convertOlder: a place that was converted is gone, for Convert too, unless it
// repeats what was done.
func convertOlder(e *env) {
	q := e.trio()
	for i, older := range e.thereAndBack(q) {
		e.unconverted(q.s, q.queue, older, fmt.Sprintf("Convert of place number %d of four", i+1),
			q.first.Place, q.own.Place, q.last.Place)
	}
}

// convertSpares: the entry of another time has the same ID, session and queue,
// and even the mode that is asked for.
func convertSpares(e *env) {
	d := e.duel() // somebody keeps the queue
	old, c := e.join(d.ahead, d.queue), contender()
	c.ID = old.Place.ID
	e.leave(d.ahead, d.queue, old.Place)
	for _, mode := range []string{"x", "p7"} { // the mode it had, and the one that is asked for
		c.Mode = mode
		later := e.joinAs(d.ahead, d.queue, c)
		e.unconverted(d.ahead, d.queue, old, "Convert of an earlier entry of the same ID",
			d.first.Place, d.second.Place, later.Place)
		e.leave(d.ahead, d.queue, later.Place)
	}
}

// convertForeign: a place belongs to the session in it, and to its queue.
func convertForeign(e *env) {
	d := e.duel()
	all := []driver.Place{d.first.Place, d.second.Place}
	e.unconverted(d.behind, d.queue, d.first, "Convert of a place of another session", all...)
	mixed := d.first
	mixed.Place.ID, mixed.Place.Session = d.second.Place.ID, d.second.Place.Session
	e.unconverted(d.behind, d.queue, mixed, "Convert with another's key and the own ID and session", all...)
	e.unconverted(d.ahead, e.queue(), d.first, "Convert of a place of another queue")
	e.hasPlaces(d.ahead, d.queue, "Convert of a place of another queue", all...)
}

// lostConversion is a contender that was converted; the reply was lost with the connection.
func (e *env) lostConversion() *late {
	l := e.late()
	e.lostReply(l.client,
		func(ctx context.Context) error {
			_, err := l.s.Convert(ctx, l.queue, l.own, "r", []byte("converted"))
			return err
		},
		func() bool { return e.list(l.seer, l.queue)[1].Mode == "r" })
	return l
}

// convertLostReply: the second call finds the place gone by its own doing.
func convertLostReply(e *env) {
	l := e.lostConversion()
	entry := e.list(l.seer, l.queue)[1]
	for range 2 {
		if now := e.convertUntil(l.s, l.queue, l.own, "r", "converted"); now.Place != entry.Place {
			e.fail(fmt.Sprintf("the place that was made, %+v", entry.Place), "Convert again returned %+v", now.Place)
		}
	}
	e.keeps(l.seer, l.queue, l.stays.Place.ID, l.own.Place.ID)
	l.own.Place = entry.Place
	e.showsNow(l.s, l.queue, 1, l.own, "converted")
	l.own = e.convert(l.s, l.queue, l.own, "x", "again") // it goes on from there
	e.leave(l.s, l.queue, l.own.Place)
	e.keeps(l.seer, l.queue, l.stays.Place.ID)
}

// joinAgainConverted: the ID stands, in whatever mode. A second entry would wait for the first.
func joinAgainConverted(e *env) {
	s, other := e.open(), e.open()
	queue, c := e.queue(), contender()
	stays := e.join(other, queue)
	own := e.convert(s, queue, e.joinAs(s, queue, c), "r", "")
	c.Again = true
	e.same2(e.joinAs(s, queue, c), own)
	e.keeps(s, queue, stays.Place.ID, c.ID)
}

// behindConverted: the joiner counts or looks for those who are there, of whatever mode.
func behindConverted(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	own := e.convert(a, queue, e.join(a, queue), "r", "")
	for _, s := range []session{a, b} {
		second := e.join(s, queue)
		if second.First {
			e.fail("First is false behind another", "Join behind a converted entry returned First")
		}
		e.same(e.ahead(s, queue, second.Place), []string{own.Place.ID}, "ahead is the converted one:")
		e.leave(s, queue, second.Place)
	}
}

func aloneConverted(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	own := e.convert(a, queue, e.join(a, queue), "r", "")
	e.refuse(a, queue)
	e.refuse(b, queue)
	e.keeps(b, queue, own.Place.ID)
	e.leave(a, queue, own.Place)
	c := contender()
	c.Alone = true
	e.joinAs(b, queue, c)
}

func leaveConverted(e *env) {
	q := e.trio()
	q.own = e.convert(q.s, q.queue, q.own, "r", "")
	e.leave(q.s, q.queue, q.own.Place)
	e.same(e.standing(q.s, q.queue), []string{q.first.Place.ID, q.last.Place.ID}, "its own session lists")
	leaves.gone(e, q.s, q.queue, q.own.Place, " repeated", q.first.Place.ID, q.last.Place.ID)
}

// leaveOlder: that entry is not there any more. The contender is, and says so with its new place.
func leaveOlder(e *env) {
	q := e.trio()
	for i, older := range e.thereAndBack(q) {
		leaves.gone(e, q.s, q.queue, older.Place, fmt.Sprintf(" with place number %d of four", i+1), q.ids()...)
	}
}

func forgetConverted(e *env) {
	q := e.trio()
	q.own = e.convert(q.s, q.queue, q.own, "r", "")
	w := e.watch(q.behind, q.queue, q.own.Place)
	e.ok(q.s.Forget(e.soon(), q.queue, q.own.Place.ID), "Forget")
	e.same(e.standing(q.s, q.queue), []string{q.first.Place.ID, q.last.Place.ID}, "its own session lists")
	e.fires(w, "a converted one was forgotten")
}

// forgetLostConversion: the client knows the place before the conversion only, and forgets by ID.
func forgetLostConversion(e *env) {
	l := e.lostConversion()
	l.forget()
	e.keeps(l.seer, l.queue, l.stays.Place.ID)
}

func closeConverted(e *env) {
	d := e.duel()
	e.convert(d.ahead, d.queue, d.first, "r", "")
	elsewhere := e.queue()
	e.convert(d.ahead, elsewhere, e.convert(d.ahead, elsewhere, e.join(d.ahead, elsewhere), "r", ""), "x", "")
	e.closeAhead(d, "converted entries", elsewhere)
}

var writeCases = []testCase{
	{name: "P1/a write is shown by list and head", body: writeShows},
	{name: "P1/a written entry goes with its session", needs: []Lever{Expire}, body: writtenGoesWithSession},
	{name: "C1/after close written entries are gone", body: closeWritten},
	{name: "P1/a write may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: writeLostReply},
	{name: "P2/a place that is gone is not written", body: writeGone},
	{name: "P2/a stale write spares the same id joined later", body: writeSpares},
	{name: "P2/a foreign place is not written", body: writeForeign},
	{name: "P1/a write that was given up does not overwrite a later one", body: writeGivenUp},
	{name: "W2/a write is told to who follows the head and not to who waits for its leaving", body: writeToldToFollower},
	{name: "W2/writes and conversions of others wake nobody", body: writesWakeNobody},
}

// writeShows: also of the first and of a converted one; values may hold any bytes. All else stays.
func writeShows(e *env) {
	a, b := e.open(), e.open()
	queue, c := e.queue(), contender()
	first := e.convert(a, queue, e.join(a, queue), "r", "")
	own := e.joinAs(b, queue, c)
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(i)
	}
	for _, value := range []string{"one", "", string(big), "\x00\xff ü/%"} {
		e.write(a, queue, first.Place, value)
		e.write(b, queue, own.Place, value)
		e.showsNow(a, queue, 0, first, value)
		e.showsNow(b, queue, 1, own, value)
		e.shows(a, queue, own, value)
		if head := e.head(a, queue); !sameEntry(head.Entry, first, value) {
			e.fail("Head shows what was written", "after a Write of %.20q Head is %s", value, sprintEntries([]driver.Entry{head.Entry}))
		}
	}
	c.Again = true
	e.same2(e.joinAs(b, queue, c), own) // a repeated Join does not bring its value back
	e.showsNow(b, queue, 1, own, "\x00\xff ü/%")
	e.same(e.ahead(b, queue, own.Place), []string{first.Place.ID}, "ahead of the one who wrote:")
}

// writtenGoesWithSession: whoever writes an entry anew has to tie it to its session anew.
func writtenGoesWithSession(e *env) {
	d := e.duel()
	e.write(d.ahead, d.queue, d.first.Place, "written")
	w := e.watch(d.behind, d.queue, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.fires(w, "the session of the one who wrote ended")
	e.stands(d.behind, d.queue, d.second.Place.ID)
}

func closeWritten(e *env) {
	d := e.duel()
	e.write(d.ahead, d.queue, d.first.Place, "written")
	e.closeAhead(d, "written entries")
}

// writeLostReply: the second call finds its own work, and the third goes on from there.
func writeLostReply(e *env) {
	l := e.late()
	e.lostReply(l.client, l.write, func() bool { return string(e.list(l.seer, l.queue)[1].Value) == "late" })
	e.writeUntil(l.s, l.queue, l.own.Place, "late")
	e.showsNow(l.s, l.queue, 1, l.own, "late")
	e.write(l.s, l.queue, l.own.Place, "next")
	e.showsNow(l.s, l.queue, 1, l.own, "next")
}

// unwritten checks that Write finds no entry, and that the queue keeps the given ones.
func (e *env) unwritten(s session, queue driver.Queue, own driver.Place, what string, keep ...driver.Place) {
	e.is(s.Write(e.soon(), queue, own, []byte("written")), what, driver.ErrGone)
	e.settle()
	e.hasPlaces(s, queue, what, keep...)
	for _, x := range e.list(s, queue) {
		if string(x.Value) == "written" {
			e.fail("nothing is written", "after %s the queue has %s", what, sprintEntries([]driver.Entry{x}))
		}
	}
}

func writeGone(e *env) {
	q := e.trio()
	others := []driver.Place{q.first.Place, q.last.Place}
	e.leave(q.s, q.queue, q.own.Place)
	e.unwritten(q.s, q.queue, q.own.Place, "Write to a place that was left", others...)
	q.own = e.join(q.s, q.queue)
	e.ok(q.s.Forget(e.soon(), q.queue, q.own.Place.ID), "Forget")
	e.unwritten(q.s, q.queue, q.own.Place, "Write to a place that was forgotten", others...)
	if e.has(Remove) {
		q.own = e.join(q.s, q.queue)
		e.ok(e.svc.Remove(e.soon(), q.queue, q.own.Place), "Remove of the harness")
		e.unwritten(q.s, q.queue, q.own.Place, "Write to a place that was removed", others...)
	}
	q.own = e.join(q.s, q.queue)
	older := e.thereAndBack(q)
	others = append(others, q.own.Place)
	e.unwritten(q.s, q.queue, older[0].Place, "Write to a place that was converted", others...)
	e.unwritten(q.s, q.queue, older[1].Place, "Write to a place that was converted twice since", others...)
}

// writeSpares: the entry of another time has the same ID, mode, session and queue.
func writeSpares(e *env) {
	d := e.duel()
	old, c := e.join(d.ahead, d.queue), contender()
	c.ID = old.Place.ID
	e.leave(d.ahead, d.queue, old.Place)
	later := e.joinAs(d.ahead, d.queue, c)
	e.unwritten(d.ahead, d.queue, old.Place, "Write to an earlier entry of the same ID",
		d.first.Place, d.second.Place, later.Place)
}

// writeForeign: a place belongs to the session in it, and to its queue.
func writeForeign(e *env) {
	d := e.duel()
	all := []driver.Place{d.first.Place, d.second.Place}
	e.unwritten(d.behind, d.queue, d.first.Place, "Write to a place of another session", all...)
	mixed := d.first.Place
	mixed.ID, mixed.Session = d.second.Place.ID, d.second.Place.Session
	e.unwritten(d.behind, d.queue, mixed, "Write with another's key and the own ID and session", all...)
	e.unwritten(d.ahead, e.queue(), d.first.Place, "Write to a place of another queue")
	e.hasPlaces(d.ahead, d.queue, "Write to a place of another queue", all...)
}

// writesWakeNobody: Watch waits for leavings among its places. A value is none,
// whoever writes it, and a conversion is one of the converted place only.
func writesWakeNobody(e *env) {
	q := e.trio()
	w := e.watch(q.behind, q.queue, q.own.Place)
	for _, value := range []string{"one", "two", ""} {
		e.write(q.s, q.queue, q.own.Place, value)
		e.write(q.ahead, q.queue, q.first.Place, value)
	}
	e.quiet(w, "writes")
	for _, mode := range []string{"r", "x"} {
		q.first = e.convert(q.ahead, q.queue, q.first, mode, "converted")
		q.last = e.convert(q.behind, q.queue, q.last, mode, "converted")
	}
	e.setRecord(q.ahead, q.queue, "record", 0)
	e.quiet(w, "conversions of others, and a record")
	e.write(q.s, q.queue, q.own.Place, "last")
	e.leave(q.s, q.queue, q.own.Place)
	e.fires(w, "the one it waits for left")
}

// writeToldToFollower: one session does both, of one entry.
func writeToldToFollower(e *env) {
	d := e.duel()
	known := e.head(d.behind, d.queue)
	w := e.watch(d.behind, d.queue, d.first.Place)
	for _, value := range []string{"one", "two"} {
		o := headSubject.reach(e, d.behind, d.queue, known.Version, value)
		e.settle()
		e.write(d.ahead, d.queue, d.first.Place, value)
		e.reached(o, "Head", "a write of the first")
		e.quiet(w, "a write")
		known = e.head(d.behind, d.queue)
	}
	var got driver.Head
	o := e.follow(d.behind, d.queue, known.Version, &got)
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(w, "the one it waits for left")
	e.reached(o, "Head", "the first left")
	e.isHead(got, d.second, "", "after the first has left")
}

// writeGivenUp: the calls do not overlap, but their requests may.
func writeGivenUp(e *env) {
	q := e.trio()
	for i := range 20 {
		_ = q.s.Write(e.brief(), q.queue, q.own.Place, []byte("given up"))
		value := fmt.Sprint(i)
		e.write(q.s, q.queue, q.own.Place, value)
		time.Sleep(e.Settle / 20)
		e.showsNow(q.s, q.queue, 1, q.own, value)
	}
}

// brief returns a context that ends at about the time when a call with it is answered.
func (e *env) brief() context.Context {
	return e.in(time.Duration(rand.Int64N(int64(e.Settle / 50))))
}
