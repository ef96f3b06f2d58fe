package coordinatortest

import (
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

var linesCases = []testCase{
	{name: "E1/lines has those of all sessions", body: linesOfAll},
	{name: "E1/lines has a line whose entry was converted", body: linesConverted},
	{name: "E1/lines has those behind a long one", body: linesBehindLong},
	{name: "E2/lines has none that everybody has left", body: linesLeft},
	{name: "E2/lines has none that only has a record", body: linesRecords},
}

// lines returns which of the given lines a session is shown. Those of other cases may be there too.
func (e *env) lines(s session, of []driver.Line) []driver.Line {
	all, err := s.Lines(e.soon())
	e.ok(err, "Lines")
	seen := make(map[driver.Line]bool)
	for _, line := range all {
		if seen[line] {
			e.fail("each line once", "Lines has %s twice", line)
		}
		seen[line] = true
	}
	return slices.DeleteFunc(slices.Clone(of), func(line driver.Line) bool { return !seen[line] })
}

// standIn checks which of the given lines are shown, to each of the sessions at once.
func (e *env) standIn(of, want []driver.Line, after string, sessions ...session) {
	for _, s := range sessions {
		if got := e.lines(s, of); !slices.Equal(got, want) {
			e.fail(fmt.Sprintf("%s Lines has %q", after, want), "it has %q", got)
		}
	}
}

// similarLines are lines whose names contain, extend, escape or spell each other.
func similarLines(id string) (lines []driver.Line) {
	for _, name := range []string{"m/%sa", "m/%sa%%2Fb", "m/%saa", "m/%sA", "m/%sa.b", "m/%sa-", "m/%%61%s", "m/a%s", "s/%sa", "m-m/%sa"} {
		lines = append(lines, driver.Line(fmt.Sprintf(name, id)))
	}
	return lines
}

// linesOfAll: an operator asks at another place than those who have just joined, and must not be shown less.
func linesOfAll(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	all := similarLines(newID())
	e.standIn(all, []driver.Line{}, "before anybody joined", seer)
	for i, line := range all {
		e.join([]session{a, b}[i%2], line)
		e.join(b, line)
		e.standIn(all, all[:i+1], "after each join", seer)
	}
	e.standIn(all, all, "at last", a, b)
}

func linesConverted(e *env) {
	d := e.duel()
	first := e.convert(d.ahead, d.line, d.first, "r", "")
	e.leave(d.behind, d.line, d.second.Place)
	e.standIn([]driver.Line{d.line}, []driver.Line{d.line}, "with an entry that was converted", d.ahead, d.behind)
	e.leave(d.ahead, d.line, first.Place)
	e.standIn([]driver.Line{d.line}, []driver.Line{}, "after that has left", d.ahead, d.behind)
}

// linesBehindLong: whoever passes over a long line must go on behind it, and not before or after.
func linesBehindLong(e *env) {
	const long, crowd = 3, 600
	s, seer := e.open(), e.open()
	var all []driver.Line
	for i, id := 0, newID(); i < 7; i++ {
		all = append(all, driver.Line(fmt.Sprintf("m/%s%d", id, i)))
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

func linesLeft(e *env) {
	a, b, seer := e.open(), e.open(), e.open()
	all := similarLines(newID())
	for i, line := range all {
		own, behind := e.joinBehind(a, line), e.joinBehind(b, line)
		f := e.start(func() error { _, err := b.Follow(e.ctx, line, behind.Place, own.Place); return err })
		switch i % 3 {
		case 0:
			e.ok(a.Pass(e.soon(), line, own.Place), "Pass")
		case 1:
			e.leave(a, line, own.Place)
		case 2:
			e.ok(a.Forget(e.soon(), line, own.Place.ID), "Forget")
		}
		e.fires(f, "the one ahead has gone")
		if i%2 == 0 {
			e.ok(b.Pass(e.soon(), line, behind.Place), "Pass")
			e.standIn(all[:i+1], []driver.Line{}, "after all have left", seer, a, b)
		} else {
			e.standIn(all[i:i+1], all[i:i+1], "while one is left", seer, a, b)
			e.leave(b, line, behind.Place)
		}
	}
	e.standIn(all, []driver.Line{}, "at last", seer)
}

func linesRecords(e *env) {
	s, seer, line := e.open(), e.open(), e.line()
	e.setRecord(s, line, "value", 0)
	e.standIn([]driver.Line{line}, []driver.Line{}, "with a record and nobody", seer)
	own := e.join(s, line)
	e.standIn([]driver.Line{line}, []driver.Line{line}, "with a record and somebody", seer)
	e.leave(s, line, own.Place)
	e.standIn([]driver.Line{line}, []driver.Line{}, "with a record and nobody any more", seer)
}
