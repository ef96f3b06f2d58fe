package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// lateConvertCases: the connection breaks while a Convert is on it, and its bytes come to the service after
// something else has happened to the contender.
var lateConvertCases = []testCase{
	{name: "M4/forget beats a conversion under way", needs: []Lever{Hold, Strand}, body: lateRequest((*late).convert, (*late).forget)},
	{name: "M4/leave beats a conversion under way", needs: []Lever{Hold, Strand}, body: lateRequest((*late).convert, (*late).leave)},
	{name: "M4/forget beats a conversion that was given up while cut off", needs: []Lever{Hold, Reset}, body: conversionCutOff},
	{name: "M3/a conversion under way of a removed entry makes nothing", needs: []Lever{Hold, Strand, Remove},
		body: lateRequest((*late).convert, (*late).remove)},
	{name: "M3/a late conversion does not undo a later one", needs: []Lever{Hold, Strand}, body: conversionOvertaken},
	{name: "M4/a late conversion spares the same id joined later", needs: []Lever{Hold, Strand}, body: lateConversionSpares},
	{name: "C1/requests under way are not applied after close", needs: []Lever{Hold, Strand}, body: closeBeatsAll},
}

// lateWriteCases are the same for Write.
var lateWriteCases = []testCase{
	{name: "P1/a late write does not overwrite a later one", needs: []Lever{Hold, Strand}, body: writeOvertaken},
	{name: "P1/a write that was given up while cut off does not overwrite a later one", needs: []Lever{Hold, Reset}, body: writeCutOff},
	{name: "P2/a late write brings nobody back who has left", needs: []Lever{Hold, Strand}, body: lateRequest((*late).write, (*late).leave)},
	{name: "P2/a late write brings nobody back who was forgotten", needs: []Lever{Hold, Strand}, body: lateRequest((*late).write, (*late).forget)},
	{name: "P2/a late write spares the same id joined later", needs: []Lever{Hold, Strand}, body: lateWriteSpares},
	{name: "P2/a late write does not change the converted entry", needs: []Lever{Hold, Strand}, body: lateWriteConverted},
}

// late is a contender behind another session's, on a client whose requests can be made late.
type late struct {
	*env
	client  Client
	s, seer session
	line    driver.Line
	stays   driver.Joined // the other's
	own     driver.Joined
}

func (e *env) late() *late {
	l := &late{env: e, client: e.connect(), seer: e.open(), line: e.line()}
	l.s = e.openOn(l.client)
	l.stays, l.own = e.join(l.seer, l.line), e.join(l.s, l.line)
	e.stands(l.seer, l.line, l.stays.Place.ID, l.own.Place.ID)
	return l
}

func (l *late) convert(ctx context.Context) error {
	_, err := l.s.Convert(ctx, l.line, l.own, "r", []byte("late"))
	return err
}

func (l *late) write(ctx context.Context) error {
	return l.s.Write(ctx, l.line, l.own.Place, []byte("late"))
}

func (l *late) forget() { l.forgetUntil(l.s, l.line, l.own.Place.ID) }
func (l *late) leave()  { leaves.leaveUntil(l.env, l.s, l.line, l.own.Place) }
func (l *late) remove() { l.ok(l.svc.Remove(l.soon(), l.line, l.own.Place), "Remove of the harness") }

// cutOff makes a call that its caller gives up while nothing passes, and breaks the connection. The client may have the
// request still, to send it on the next one.
func (l *late) cutOff(call func(ctx context.Context) error) {
	l.client.Link.HoldRequests()
	l.client.Link.HoldReplies()
	o := l.start(func() error { return call(l.in(l.Settle)) })
	if l.ends(o, l.Settle+l.Patience, "a call while cut off") == nil {
		l.fail("an error", "a call succeeded while nothing passed")
	}
	l.client.Link.Reset()
	l.client.Link.Heal()
}

// nothing lets what is under way arrive, when the contender is not in the line any more.
func (l *late) nothing() {
	l.stands(l.seer, l.line, l.stays.Place.ID)
	l.client.Link.Deliver()
	l.keeps(l.seer, l.line, l.stays.Place.ID)
	next := l.joinUntil(l.s, l.line, contender()) // the session can still join
	l.stands(l.seer, l.line, l.stays.Place.ID, next.Place.ID)
}

// lateRequest: an entry of one who has left belongs to nobody who would remove it. A late conversion makes one, and so does a
// late write that makes what is not there.
func lateRequest(request func(*late, context.Context) error, gone func(l *late)) func(e *env) {
	return func(e *env) {
		l := e.late()
		e.strand(l.client, func(ctx context.Context) error { return request(l, ctx) })
		gone(l)
		l.nothing()
	}
}

func conversionCutOff(e *env) {
	l := e.late()
	l.cutOff(l.convert)
	l.forget()
	l.nothing()
}

// conversionOvertaken: the Convert was repeated, and the contender has gone on and back to its first mode: to
// the late request all looks as it did when it was sent, but for the key.
func conversionOvertaken(e *env) {
	l := e.late()
	e.strand(l.client, l.convert)
	own := e.convertUntil(l.s, l.line, l.own, "r", "repeated")
	own = e.convert(l.s, l.line, own, "x", "later")
	l.client.Link.Deliver()
	e.keeps(l.seer, l.line, l.stays.Place.ID, own.Place.ID)
	e.showsNow(l.s, l.line, 1, own, "later")
	e.shows(l.seer, l.line, own, "later")
}

// lateConversionSpares: the ID stands again, for another attempt.
func lateConversionSpares(e *env) {
	l := e.late()
	e.strand(l.client, l.convert)
	l.forget()
	c := contender()
	c.ID, c.Value = l.own.Place.ID, []byte("another time")
	own := e.joinUntil(l.s, l.line, c)
	l.client.Link.Deliver()
	e.keeps(l.seer, l.line, l.stays.Place.ID, own.Place.ID)
	e.showsNow(l.s, l.line, 1, own, "another time")
}

// closeBeatsAll: the record outlives the session, but the session's requests must not.
func closeBeatsAll(e *env) {
	l := e.late()
	writer := e.join(l.s, l.line)
	known := e.setRecord(l.seer, l.line, "before", 0) // one that is there: to make the first may take more requests
	e.strand(l.client, l.convert,
		func(ctx context.Context) error { return l.s.Write(ctx, l.line, writer.Place, []byte("late")) },
		func(ctx context.Context) error {
			_, err := l.s.SetRecord(ctx, l.line, []byte("late"), known)
			return err
		})
	e.ok(e.again(l.s.Close), "Close")
	l.client.Link.Deliver()
	e.keeps(l.seer, l.line, l.stays.Place.ID)
	if got := e.record(l.seer, l.line); got.Version != known {
		e.fail("the record that was there", "a SetRecord that was under way when its session was closed has written %q", got.Value)
	}
}

// writeOvertaken: the late value is older than the one that everybody has seen.
func writeOvertaken(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	e.writeUntil(l.s, l.line, l.own.Place, "later")
	e.shows(l.seer, l.line, l.own, "later")
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.line, 1, l.own, "later")
	e.shows(l.seer, l.line, l.own, "later")
}

func writeCutOff(e *env) {
	l := e.late()
	l.cutOff(l.write)
	e.writeUntil(l.s, l.line, l.own.Place, "later")
	e.settle()
	e.showsNow(l.s, l.line, 1, l.own, "later")
	e.shows(l.seer, l.line, l.own, "later")
}

// lateWriteSpares: the ID stands again, for another attempt with another value.
func lateWriteSpares(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	l.leave()
	c := contender()
	c.ID, c.Value = l.own.Place.ID, []byte("another time")
	own := e.joinUntil(l.s, l.line, c)
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.line, 1, own, "another time")
	e.shows(l.seer, l.line, own, "another time")
}

// lateWriteConverted: the conversion came with a value of its own, which is the later one.
func lateWriteConverted(e *env) {
	l := e.late()
	e.strand(l.client, l.write)
	own := e.convertUntil(l.s, l.line, l.own, "r", "converted")
	l.client.Link.Deliver()
	e.settle()
	e.showsNow(l.s, l.line, 1, own, "converted")
	e.shows(l.seer, l.line, own, "converted")
}
