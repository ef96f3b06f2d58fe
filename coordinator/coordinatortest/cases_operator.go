package coordinatortest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

var checkCases = []testCase{
	{name: "K1/a check knows at once who has left", body: checkAfterLeave},
	{name: "K1/a check knows at once who was converted", body: checkAfterConvert},
	{name: "K1/a check knows at once whose session has ended", needs: []Lever{Expire}, body: checkAfterExpire},
	{name: "K1/a check goes by the token too", body: checkTokens},
	{name: "K1/a check does not find the entry of another queue", body: checkQueues},
	{name: "K1/a check tells an entry from a later one of the same id", body: checkLater},
	{name: "K2/a check finds the entries of all sessions", body: checkSessions},
	{name: "K2/a check finds an entry that was converted", body: checkConverted},
	{name: "K2/a check of an odd key finds nothing", body: checkOdd},
}

// checks looks whether an entry stands.
func (e *env) checks(s session, queue driver.Queue, own driver.Joined, stands bool, what string) {
	err := s.Check(e.soon(), queue, own.Place.Key, own.Token)
	if stands {
		e.ok(err, "Check of "+what)
		return
	}
	e.is(err, "Check of "+what, driver.ErrGone)
}

// checkAfterLeave: whoever asks is told by another session, over another way,
// that the entry has left, and no view of its own may say otherwise.
func checkAfterLeave(e *env) {
	d, third := e.duel(), e.open()
	for _, s := range []session{d.behind, third} {
		e.checks(s, d.queue, d.first, true, "an entry that stands")
	}
	e.leave(d.ahead, d.queue, d.first.Place)
	for _, s := range []session{d.behind, third, d.ahead} {
		e.checks(s, d.queue, d.first, false, "an entry that has left")
	}
}

func checkAfterConvert(e *env) {
	d := e.duel()
	e.checks(d.behind, d.queue, d.first, true, "an entry that stands")
	e.convert(d.ahead, d.queue, d.first, "r", "")
	e.checks(d.behind, d.queue, d.first, false, "an entry that was converted")
	e.checks(d.ahead, d.queue, d.first, false, "an entry that was converted")
}

func checkAfterExpire(e *env) {
	d := e.duel()
	e.checks(d.behind, d.queue, d.first, true, "an entry that stands")
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.checks(d.behind, d.queue, d.first, false, "an entry of a session that has ended")
}

func checkTokens(e *env) {
	d := e.duel()
	for _, token := range []driver.Token{0, -1, 1, d.first.Token - 1, d.first.Token + 1, d.second.Token} {
		forged := d.first
		forged.Token = token
		if token != d.first.Token {
			e.checks(d.behind, d.queue, forged, false, fmt.Sprintf("an entry with token %d instead of %d", token, d.first.Token))
		}
	}
	moved := e.convert(d.ahead, d.queue, d.first, "r", "")
	moved.Token++
	e.checks(d.behind, d.queue, moved, false, "a converted entry with another token")
}

func checkQueues(e *env) {
	d := e.duel()
	other := driver.Queue(string(d.queue) + "-")
	e.checks(d.behind, e.queue(), d.first, false, "an entry of another queue")
	e.checks(d.behind, other, d.first, false, "an entry of a queue with a shorter name")
	own := e.join(d.ahead, other)
	e.checks(d.behind, d.queue, own, false, "an entry of a queue with a longer name")
	e.checks(d.behind, other, own, true, "the entry of that queue")
}

func checkLater(e *env) {
	s, other := e.open(), e.open()
	queue, c := e.queue(), contender()
	e.join(other, queue) // an empty queue might be cleaned away, and count anew
	old := e.joinAs(s, queue, c)
	e.leave(s, queue, old.Place)
	now := e.joinAs(s, queue, c)
	e.checks(other, queue, old, false, "an earlier entry of the same ID")
	e.checks(other, queue, now, true, "the entry of the same ID that stands")
	old.Token = now.Token
	e.checks(other, queue, old, false, "the key of an earlier entry with the token of the one that stands")
}

func checkSessions(e *env) {
	d := e.duel()
	for _, s := range []session{d.ahead, d.behind, e.open()} {
		e.checks(s, d.queue, d.first, true, "the first entry")
		e.checks(s, d.queue, d.second, true, "the second entry")
	}
}

func checkConverted(e *env) {
	d := e.duel()
	moved := e.convert(d.ahead, d.queue, d.first, "r", "")
	e.checks(d.behind, d.queue, moved, true, "a converted entry")
	moved = e.convert(d.ahead, d.queue, moved, "s", "")
	e.checks(d.behind, d.queue, moved, true, "an entry that was converted twice")
	e.leave(d.ahead, d.queue, moved.Place)
	e.checks(d.behind, d.queue, moved, false, "a converted entry that has left")
}

// oddKeys are keys that no entry of a queue has, beside one that an entry has.
func oddKeys(queue driver.Queue, key string) []string {
	return []string{
		"", ".", "..", "/", "../" + key, key + "/", key + "x", "x" + key, key[:len(key)-1], strings.ToUpper(key) + "Z", "@", "@1",
		string(queue), "\x00", "a\x00b", "\xff\xfe", strings.Repeat("k", 3000),
	}
}

// checkOdd: a key comes from elsewhere, and whoever forged it must learn
// nothing and reach nothing else.
func checkOdd(e *env) {
	d := e.duel()
	key := d.first.Place.Key
	for _, odd := range oddKeys(d.queue, key) {
		forged := d.first
		forged.Place.Key = odd
		e.checks(d.behind, d.queue, forged, false, fmt.Sprintf("the key %.40q instead of %q", odd, key))
	}
}

var linesCases = []testCase{
	{name: "E1/queues has those of all sessions", body: queuesOfAll},
	{name: "E1/queues has a queue whose entry was converted", body: queuesConverted},
	{name: "E1/queues has those behind a long one", body: queuesBehindLong},
	{name: "E2/queues has none that everybody has left", body: queuesLeft},
	{name: "E2/queues has none that only has a record", body: queuesRecords},
}

// queues returns which of the given queues a session is shown. Those of other cases may be there too.
func (e *env) queues(s session, of []driver.Queue) []driver.Queue {
	all, err := s.Queues(e.soon())
	e.ok(err, "Queues")
	seen := make(map[driver.Queue]bool)
	for _, queue := range all {
		if seen[queue] {
			e.fail("each queue once", "Queues has %s twice", queue)
		}
		seen[queue] = true
	}
	return slices.DeleteFunc(slices.Clone(of), func(queue driver.Queue) bool { return !seen[queue] })
}

// standIn checks which of the given queues are shown, to each of the sessions at once.
func (e *env) standIn(of, want []driver.Queue, after string, sessions ...session) {
	for _, s := range sessions {
		if got := e.queues(s, of); !slices.Equal(got, want) {
			e.fail(fmt.Sprintf("%s Queues has %q", after, want), "it has %q", got)
		}
	}
}

// similarLines are queues whose names contain, extend, escape or spell each other.
func similarQueues(id string) (queues []driver.Queue) {
	for _, name := range []string{"m/%sa", "m/%sa%%2Fb", "m/%saa", "m/%sA", "m/%sa.b", "m/%sa-", "m/%%61%s", "m/a%s", "s/%sa", "m-m/%sa"} {
		queues = append(queues, driver.Queue(fmt.Sprintf(name, id)))
	}
	return queues
}

// linesOfAll: an operator asks at another place than those who have just
// joined, and must not be shown less.
func queuesOfAll(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	all := similarQueues(newID())
	e.standIn(all, []driver.Queue{}, "before anybody joined", seer)
	for i, queue := range all {
		e.join([]session{a, b}[i%2], queue)
		e.join(b, queue)
		e.standIn(all, all[:i+1], "after each join", seer)
	}
	e.standIn(all, all, "at last", a, b)
}

func queuesConverted(e *env) {
	d := e.duel()
	first := e.convert(d.ahead, d.queue, d.first, "r", "")
	e.leave(d.behind, d.queue, d.second.Place)
	e.standIn([]driver.Queue{d.queue}, []driver.Queue{d.queue}, "with an entry that was converted", d.ahead, d.behind)
	e.leave(d.ahead, d.queue, first.Place)
	e.standIn([]driver.Queue{d.queue}, []driver.Queue{}, "after that has left", d.ahead, d.behind)
}

// linesBehindLong: whoever passes over a long queue must go on behind it, and not before or after.
func queuesBehindLong(e *env) {
	const long, crowd = 3, 600
	s, seer := e.open(), e.open()
	var all []driver.Queue
	for i, id := 0, newID(); i < 7; i++ {
		all = append(all, driver.Queue(fmt.Sprintf("m/%s%d", id, i)))
		e.join(s, all[i])
	}
	var calls []*outcome
	for range crowd {
		calls = append(calls, e.start(func() error {
			_, err := s.Join(e.soon(), all[long], contender())
			return err
		}))
	}
	for _, call := range calls {
		e.ok(e.ends(call, e.Patience, "a Join in a crowd"), "Join in a crowd")
	}
	e.standIn(all, all, fmt.Sprintf("with %d in number %d", crowd+1, long), seer, s)
}

func queuesLeft(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	all := similarQueues(newID())
	for i, queue := range all {
		own, behind := e.joinBehind(a, queue), e.joinBehind(b, queue)
		f := e.start(func() error { _, err := b.Follow(e.ctx, queue, behind.Place, own.Place); return err })
		switch i % 3 {
		case 0:
			e.ok(a.Pass(e.soon(), queue, own.Place), "Pass")
		case 1:
			e.leave(a, queue, own.Place)
		case 2:
			e.ok(a.Forget(e.soon(), queue, own.Place.ID), "Forget")
		}
		e.fires(f, "the one ahead has gone")
		if i%2 == 0 {
			e.ok(b.Pass(e.soon(), queue, behind.Place), "Pass")
			e.standIn(all[:i+1], []driver.Queue{}, "after all have left", seer, a, b)
		} else {
			e.standIn(all[i:i+1], all[i:i+1], "while one is left", seer, a, b)
			e.leave(b, queue, behind.Place)
		}
	}
	e.standIn(all, []driver.Queue{}, "at last", seer)
}

func queuesRecords(e *env) {
	s, seer, queue := e.open(), e.open(), e.queue()
	e.setRecord(s, queue, "value", 0)
	e.standIn([]driver.Queue{queue}, []driver.Queue{}, "with a record and nobody", seer)
	own := e.join(s, queue)
	e.standIn([]driver.Queue{queue}, []driver.Queue{queue}, "with a record and somebody", seer)
	e.leave(s, queue, own.Place)
	e.standIn([]driver.Queue{queue}, []driver.Queue{}, "with a record and nobody any more", seer)
}

var removeCases = []testCase{
	{name: "X1/a removed entry is gone and no other", body: removeOne},
	{name: "X1/remove finds an entry that was converted", body: removeConverted},
	{name: "X1/whoever waits for a removed entry is told", body: removeWatched},
	{name: "X1/to be removed is no pass", body: removeFollowed},
	{name: "X1/the contender of a removed entry is told", body: removeTold},
	{name: "X1/a queue goes on behind a removed entry", body: removeGoesOn},
	{name: "X2/a repeated remove deletes nothing", body: removeRepeated},
	{name: "X2/remove goes by the token too", body: removeTokens},
	{name: "X2/remove does not reach another queue", body: removeQueues},
	{name: "X2/remove spares the same id joined later", body: removeLater},
	{name: "X2/remove of an odd key deletes nothing", body: removeOdd},
	{name: "X3/remove may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: removeLostReply},
}

// remove removes, which must succeed.
func (e *env) remove(s session, queue driver.Queue, own driver.Joined) {
	e.ok(s.Remove(e.soon(), queue, own.Place.Key, own.Token), "Remove")
}

// spares checks that a Remove finds nothing, and that the queue of a duel keeps both.
func (e *env) spares(d *duel, queue driver.Queue, own driver.Joined, what string) {
	for _, s := range []session{d.ahead, d.behind} {
		e.is(s.Remove(e.soon(), queue, own.Place.Key, own.Token), "Remove of "+what, driver.ErrGone)
	}
	e.stands(d.behind, d.queue, d.first.Place.ID, d.second.Place.ID)
}

// removeOne: the first, the last and one in between, each by a session that has
// nothing to do with it.
func removeOne(e *env) {
	d, third := e.duel(), e.open()
	last := e.join(d.ahead, d.queue)
	e.remove(third, d.queue, d.second)
	e.same(e.standing(third, d.queue), []string{d.first.Place.ID, last.Place.ID}, "without the second")
	e.checks(d.behind, d.queue, d.second, false, "an entry that was removed")
	e.remove(d.behind, d.queue, last)
	e.same(e.standing(d.behind, d.queue), []string{d.first.Place.ID}, "without the last")
	e.remove(d.ahead, d.queue, d.first) // its own
	e.same(e.standing(d.ahead, d.queue), []string{}, "without anybody")
	again := e.join(d.behind, d.queue)
	e.keeps(third, d.queue, again.Place.ID)
}

func removeConverted(e *env) {
	d := e.duel()
	moved := e.convert(d.ahead, d.queue, d.first, "r", "")
	e.spares(d, d.queue, d.first, "the place before a conversion")
	e.remove(d.behind, d.queue, moved)
	e.stands(d.ahead, d.queue, d.second.Place.ID)
}

func removeWatched(e *env) {
	d, third := e.duel(), e.open()
	w := e.watch(d.behind, d.queue, d.first.Place)
	e.quiet(w, "nothing")
	e.remove(third, d.queue, d.first)
	e.fires(w, "the place was removed")
	e.same(e.ahead(d.behind, d.queue, d.second.Place), []string{}, "ahead of the next one:")
}

// removeFollowed: nobody may take for an admission what need not be one,
// whatever the driver leaves for those who follow.
func removeFollowed(e *env) {
	d, third := e.duelBy(passes), e.open()
	last := e.joinBehind(d.ahead, d.queue)
	f := e.followed(d.ahead, d.queue, last.Place, d.second.Place)
	e.quiet(f.outcome, "nothing")
	e.remove(third, d.queue, d.second)
	e.told(f, "the one ahead was removed", false)
	e.same(e.ahead(d.ahead, d.queue, last.Place), []string{d.first.Place.ID}, "ahead of the one behind it:")
	f = e.followed(d.ahead, d.queue, last.Place, d.first.Place)
	e.remove(third, d.queue, d.first)
	e.told(f, "the first was removed", false)
}

func removeTold(e *env) {
	d, third := e.duelBy(passes), e.open()
	w := e.watch(d.behind, d.queue, d.second.Place)
	e.remove(third, d.queue, d.second)
	e.fires(w, "its own entry was removed")
	_, err := d.behind.Ahead(e.soon(), d.queue, d.second.Place)
	e.is(err, "Ahead of one that was removed", driver.ErrGone)
	e.remove(third, d.queue, d.first)
	e.eventually("Ahead of one that was removed says so", func() bool { // a member may be behind
		_, err = d.ahead.Ahead(e.soon(), d.queue, d.first.Place)
		return err != nil
	})
	e.is(err, "Ahead of one that was removed", driver.ErrGone)
	e.is(d.ahead.Write(e.soon(), d.queue, d.first.Place, []byte("v")), "Write of one that was removed", driver.ErrGone)
	e.is(d.ahead.Pass(e.soon(), d.queue, d.first.Place), "Pass of one that was removed", driver.ErrGone)
	for _, s := range []session{d.ahead, d.behind} {
		e.ok(s.Renew(e.soon()), "Renew of a session whose entry was removed")
	}
}

// removeGoesOn: whoever joins after that is told of nobody who is not there,
// and the queue hands on from each to the next.
func removeGoesOn(e *env) {
	d, third := e.duelBy(passes), e.open()
	e.remove(third, d.queue, d.second)
	next := e.joinBehind(third, d.queue)
	if next.First {
		e.fail("First is false", "it is true behind %+v", d.first)
	}
	e.near(next, "behind a removed entry:", d.first.Place, d.second.Place)
	f := e.followed(third, d.queue, next.Place, d.first.Place)
	d.out(e)
	e.told(f, "the one ahead passed", true)
	e.remove(d.ahead, d.queue, next)
	alone := contender()
	alone.Alone = true
	e.joinAs(d.behind, d.queue, alone)
	e.keeps(third, d.queue, alone.ID)
}

func removeRepeated(e *env) {
	d := e.duel()
	third := e.join(d.ahead, d.queue)
	e.remove(d.ahead, d.queue, third)
	for range 2 {
		e.spares(d, d.queue, third, "an entry that was removed")
	}
}

func removeTokens(e *env) {
	d := e.duel()
	for _, token := range []driver.Token{0, -1, 1, d.first.Token - 1, d.first.Token + 1, d.second.Token} {
		if forged := d.first; token != forged.Token {
			forged.Token = token
			e.spares(d, d.queue, forged, fmt.Sprintf("an entry with token %d instead of %d", token, d.first.Token))
		}
	}
}

func removeQueues(e *env) {
	d := e.duel()
	other := driver.Queue(string(d.queue) + "-")
	e.spares(d, e.queue(), d.first, "an entry of another queue")
	e.spares(d, other, d.first, "an entry of a queue with a shorter name")
	own := e.join(d.ahead, other)
	e.spares(d, d.queue, own, "an entry of a queue with a longer name")
	e.keeps(d.behind, other, own.Place.ID)
}

func removeLater(e *env) {
	d, c := e.duel(), contender() // the two keep the queue from being cleaned away, and counting anew
	old := e.joinAs(d.ahead, d.queue, c)
	e.leave(d.ahead, d.queue, old.Place)
	now := e.joinAs(d.ahead, d.queue, c)
	mixed := old
	mixed.Token = now.Token
	for _, stale := range []driver.Joined{old, mixed} {
		err := d.behind.Remove(e.soon(), d.queue, stale.Place.Key, stale.Token)
		e.is(err, "Remove of an earlier entry of the same ID", driver.ErrGone)
	}
	e.keeps(d.behind, d.queue, d.first.Place.ID, d.second.Place.ID, c.ID)
}

// removeOdd: see checkOdd.
func removeOdd(e *env) {
	d := e.duel()
	key := d.first.Place.Key
	for _, odd := range oddKeys(d.queue, key) {
		e.is(d.behind.Remove(e.soon(), d.queue, odd, d.first.Token), fmt.Sprintf("Remove of the key %.40q instead of %q", odd, key), driver.ErrGone)
	}
	e.keeps(d.behind, d.queue, d.first.Place.ID, d.second.Place.ID)
}

// removeLostReply: before the call is repeated somebody else has joined. A
// driver that looks before it removes may not have come as far as that when the
// connection breaks.
func removeLostReply(e *env) {
	c := e.connect()
	s, holder := e.openOn(c), e.open()
	queue := e.queue()
	own := e.join(holder, queue)
	e.stands(s, queue, own.Place.ID)
	remove := func(ctx context.Context) error { return s.Remove(ctx, queue, own.Place.Key, own.Token) }
	c.Link.HoldReplies()
	o := e.start(func() error { return remove(e.soon()) })
	e.settle()
	e.waits(o, "HoldReplies")
	c.Link.Reset()
	c.Link.Heal()
	_ = e.ends(o, e.Patience, "a Remove whose connection broke")
	next := e.join(holder, queue)
	if err := e.again(remove); err != nil {
		e.is(err, "Remove, repeated while the service is unavailable", driver.ErrGone)
	}
	e.keeps(holder, queue, next.Place.ID)
}
