package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// join lets a new contender join.
func (e *env) join(s session, queue driver.Queue) driver.Joined {
	return e.joinAs(s, queue, contender())
}

func (e *env) joinAs(s session, queue driver.Queue, c driver.Contender) driver.Joined {
	j, err := s.Join(e.soon(), queue, c)
	e.ok(err, "Join")
	return j
}

// leave leaves, which must succeed.
func (e *env) leave(s session, queue driver.Queue, p driver.Place) {
	e.ok(s.Leave(e.soon(), queue, p), "Leave")
}

// ahead returns the IDs ahead of a place.
func (e *env) ahead(s session, queue driver.Queue, own driver.Place) []string {
	return ids(e.view(s, queue, own).Ahead)
}

func (e *env) view(s session, queue driver.Queue, own driver.Place) driver.View {
	view, err := s.Ahead(e.soon(), queue, own)
	e.ok(err, "Ahead")
	return view
}

// list returns all entries.
func (e *env) list(s session, queue driver.Queue) []driver.Entry {
	entries, err := s.List(e.soon(), queue, 0)
	e.ok(err, "List")
	return entries
}

// standing returns the IDs of a queue in order.
func (e *env) standing(s session, queue driver.Queue) []string {
	return entryIDs(e.list(s, queue))
}

// stands waits until a queue, seen by any session, has exactly these contenders in this order. It
// waits because no clause makes one session's view as new as another's writes.
func (e *env) stands(s session, queue driver.Queue, want ...string) {
	var got []string
	for end := time.Now().Add(e.Patience); ; time.Sleep(e.Settle / 20) {
		if got = e.standing(s, queue); slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			e.fail("contenders "+sprint(want), "after %v the queue has %s", e.Patience, sprint(got))
		}
	}
}

// keeps checks that a queue has exactly these contenders after things have settled.
func (e *env) keeps(s session, queue driver.Queue, want ...string) {
	e.settle()
	if got := e.standing(s, queue); !slices.Equal(got, want) {
		e.fail("contenders "+sprint(want), "the queue has %s", sprint(got))
	}
}

// same fails unless two lists of IDs are equal.
func (e *env) same(got, want []string, what string) {
	if !slices.Equal(got, want) {
		e.fail(what+" "+sprint(want), "%s", sprint(got))
	}
}

// lost waits until the session has been told that it is over.
func (e *env) lost(s session) {
	err := e.again(func(ctx context.Context) error {
		err := s.Renew(ctx)
		if err == nil {
			e.fail("ErrSessionLost", "Renew of an ended session succeeded")
		}
		return err
	})
	e.is(err, "Renew of an ended session", driver.ErrSessionLost)
}

// outcome is a call that runs on its own.
type outcome struct {
	done chan struct{}
	err  error
}

// start runs a call in a goroutine of the case.
func (e *env) start(call func() error) *outcome {
	o := &outcome{done: make(chan struct{})}
	e.group.spawn(func() {
		defer close(o.done)
		defer func() {
			switch p := recover().(type) {
			case nil:
			case lacking:
				e.lacks.Store(&p)
			default:
				panic(p)
			}
		}()
		o.err = call()
	})
	return o
}

// ends waits for a call that must end within d.
func (e *env) ends(o *outcome, d time.Duration, what string) error {
	select {
	case <-o.done:
	case <-time.After(d):
		e.fail(what+" ends", "%s was still waiting after %v", what, d)
	}
	return o.err
}

// watch starts a Watch and lets it reach the service. It goes on while the
// service is unavailable, as clause W4 wants package coordinator to do.
func (e *env) watch(s session, queue driver.Queue, places ...driver.Place) *outcome {
	o := e.start(func() error {
		for {
			err := s.Watch(e.ctx, queue, places...)
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	e.settle()
	return o
}

// quiet fails if the watch ends although nothing has happened to its places.
func (e *env) quiet(w *outcome, while string) {
	e.settle()
	e.waiting(w, "Watch", while)
}

// waiting fails if a call has returned that has to wait.
func (e *env) waiting(o *outcome, what, while string) {
	select {
	case <-o.done:
		e.fail(what+" goes on waiting", "%s returned %v after %s", what, o.err, while)
	default:
	}
}

// fires waits for the watch to report a leaving.
func (e *env) fires(w *outcome, after string) {
	if err := e.ends(w, e.Patience, "Watch after "+after); err != nil {
		e.fail("nil", "Watch after %s: %v", after, err)
	}
}

func ids(places []driver.Place) []string {
	all := []string{}
	for _, p := range places {
		all = append(all, p.ID)
	}
	return all
}

func entryIDs(entries []driver.Entry) []string {
	all := []string{}
	for _, x := range entries {
		all = append(all, x.ID)
	}
	return all
}

// sprint shortens IDs, which are long and random, for messages.
func sprint(list []string) string {
	short := make([]byte, 0, 64)
	for i, id := range list {
		if i == 8 {
			short = append(short, " ..."...)
			break
		}
		if i > 0 {
			short = append(short, ' ')
		}
		short = append(short, id[:min(6, len(id))]...)
	}
	return "[" + string(short) + "]"
}

// convert converts, which must succeed, and returns own with its new place.
func (e *env) convert(s session, queue driver.Queue, own driver.Joined, mode, value string) driver.Joined {
	place, err := s.Convert(e.soon(), queue, own, mode, []byte(value))
	e.ok(err, "Convert")
	return e.converted(own, place, mode)
}

// convertUntil converts as package coordinator does: again while the outcome is unknown.
func (e *env) convertUntil(s session, queue driver.Queue, own driver.Joined, mode, value string) driver.Joined {
	var place driver.Place
	e.ok(e.again(func(ctx context.Context) (err error) {
		place, err = s.Convert(ctx, queue, own, mode, []byte(value))
		return err
	}), "Convert, repeated while the service is unavailable")
	return e.converted(own, place, mode)
}

// converted checks what Convert returned and gives it to own.
func (e *env) converted(own driver.Joined, place driver.Place, mode string) driver.Joined {
	if place.ID != own.Place.ID || place.Session != own.Place.Session || place.Mode != mode {
		e.fail(fmt.Sprintf("the ID and session of %+v, and mode %s", own.Place, mode), "Convert returned %+v", place)
	}
	if place.Key == own.Place.Key {
		e.fail("a key of its own for the new entry", "Convert returned the key of the old one, %q", place.Key)
	}
	own.Place, own.First = place, false
	return own
}

// write writes, which must succeed.
func (e *env) write(s session, queue driver.Queue, own driver.Place, value string) {
	e.ok(s.Write(e.soon(), queue, own, []byte(value)), "Write")
}

// writeUntil writes as package coordinator does.
func (e *env) writeUntil(s session, queue driver.Queue, own driver.Place, value string) {
	e.ok(e.again(func(ctx context.Context) error { return s.Write(ctx, queue, own, []byte(value)) }),
		"Write, repeated while the service is unavailable")
}

// shows waits until a list, read by any session, has this entry in the second
// place: behind that of another session.
func (e *env) shows(s session, queue driver.Queue, own driver.Joined, value string) {
	e.eventually(fmt.Sprintf("the second in the queue is %+v with token %d and value %.20q", own.Place, own.Token, value),
		func() bool {
			entries := e.list(s, queue)
			return len(entries) > 1 && sameEntry(entries[1], own, value)
		})
}

// showsNow checks the same of a list that must be current: the session has done
// the latest change itself.
func (e *env) showsNow(s session, queue driver.Queue, at int, own driver.Joined, value string) {
	entries := e.list(s, queue)
	if len(entries) <= at || !sameEntry(entries[at], own, value) {
		e.fail(fmt.Sprintf("number %d is %+v with token %d and value %.20q", at+1, own.Place, own.Token, value),
			"the session that has done it lists %s", sprintEntries(entries))
	}
}

func sameEntry(x driver.Entry, own driver.Joined, value string) bool {
	return x.Place == own.Place && x.Token == own.Token && bytes.Equal(x.Value, []byte(value))
}

func sprintEntries(entries []driver.Entry) string {
	var all []string
	for _, x := range entries {
		all = append(all, fmt.Sprintf("%+v with token %d and value %.20q", x.Place, x.Token, x.Value))
	}
	return fmt.Sprintf("%d entries: %s", len(entries), all)
}

// head returns the first entry at once.
func (e *env) head(s session, queue driver.Queue) driver.Head {
	head, err := s.Head(e.soon(), queue, driver.Any)
	e.ok(err, "Head of any version")
	return head
}

// record returns the record at once.
func (e *env) record(s session, queue driver.Queue) driver.Record {
	record, err := s.Record(e.soon(), queue, driver.Any)
	e.ok(err, "Record of any version")
	return record
}

func (e *env) setRecord(s session, queue driver.Queue, value string, known driver.Version) driver.Version {
	version, err := s.SetRecord(e.soon(), queue, []byte(value), known)
	e.ok(err, "SetRecord")
	if version == 0 || version == driver.Any || version == known {
		e.fail("the version of a record that is there", "SetRecord over version %d returned version %d", known, version)
	}
	return version
}

// setRecordUntil gives the record a value, whatever it was before, also while
// the outcome is unknown.
func (e *env) setRecordUntil(s session, queue driver.Queue, value string) {
	e.ok(e.again(func(ctx context.Context) error { return overwrite(ctx, s, queue, value) }),
		"Record and SetRecord, repeated while the service is unavailable")
}

// overwrite gives the record a value. Its own lost work is stale news, and found by the next look.
func overwrite(ctx context.Context, s session, queue driver.Queue, value string) error {
	for {
		record, err := s.Record(ctx, queue, driver.Any)
		if err != nil || string(record.Value) == value {
			return err
		}
		if _, err = s.SetRecord(ctx, queue, []byte(value), record.Version); !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// catchUp makes the views of s as new as all that was done before: by Watch it is told of a leaving
// that came later (V1). Nobody else may be waiting for anything in the queue.
func (e *env) catchUp(s, other session, queue driver.Queue) {
	passing := e.join(other, queue)
	e.leave(other, queue, passing.Place)
	e.ok(e.again(func(ctx context.Context) error { return s.Watch(ctx, queue, passing.Place) }),
		"Watch of a place that was left")
}

// lostReply runs a call whose request is applied and whose reply is lost with
// the connection. applied says when the service has done it.
func (e *env) lostReply(c Client, call func(ctx context.Context) error, applied func() bool) {
	c.Link.HoldReplies()
	o := e.start(func() error { return call(e.soon()) })
	e.eventually("the request is applied while its reply is held", applied)
	e.waits(o, "HoldReplies")
	c.Link.Reset()
	c.Link.Heal()
	_ = e.ends(o, e.Patience, "a call whose connection broke")
}

// lostJoin joins behind another, with a reply that is lost. It returns the one
// who stays. Without that one the queue need not exist, and a driver may have to
// make it first: then the lost reply is not that of the join.
func (e *env) lostJoin(c Client, s, seer session, queue driver.Queue, x driver.Contender) (stays string) {
	stays = e.join(seer, queue).Place.ID
	e.acquaint(s, queue)
	e.lostReply(c,
		func(ctx context.Context) error { _, err := s.Join(ctx, queue, x); return err },
		func() bool { return len(e.list(seer, queue)) == 2 })
	return stays
}

// acquaint lets a session see that somebody is in a queue. A driver may send
// another request to join one of which it does not know that, and a second one
// when the first is refused.
func (e *env) acquaint(s session, queue driver.Queue) {
	e.leave(s, queue, e.join(s, queue).Place)
}

// strand runs calls whose requests stay on the wire of a connection that the
// client has lost. For a Join somebody must stand in the queue, see lostJoin.
func (e *env) strand(c Client, calls ...func(ctx context.Context) error) {
	c.Link.HoldRequests()
	var running []*outcome
	for _, call := range calls {
		running = append(running, e.start(func() error { return call(e.soon()) }))
	}
	e.settle()
	for _, o := range running {
		e.waits(o, "HoldRequests")
	}
	c.Link.Strand()
	for _, o := range running {
		_ = e.ends(o, e.Patience, "a call whose connection broke")
	}
}

// waits makes sure that a lever held a call up: else the case would check nothing.
func (e *env) waits(o *outcome, lever string) {
	select {
	case <-o.done:
		e.fail("the harness holds the call up", "the call returned %v in spite of %s", o.err, lever)
	default:
	}
}
