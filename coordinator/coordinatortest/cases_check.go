package coordinatortest

import (
	"fmt"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

var checkCases = []testCase{
	{name: "K1/a check knows at once who has left", body: checkAfterLeave},
	{name: "K1/a check knows at once who was converted", body: checkAfterConvert},
	{name: "K1/a check knows at once whose session has ended", needs: []Lever{Expire}, body: checkAfterExpire},
	{name: "K1/a check goes by the token too", body: checkTokens},
	{name: "K1/a check does not find the entry of another line", body: checkLines},
	{name: "K1/a check tells an entry from a later one of the same id", body: checkLater},
	{name: "K2/a check finds the entries of all sessions", body: checkSessions},
	{name: "K2/a check finds an entry that was converted", body: checkConverted},
	{name: "K2/a check of an odd key finds nothing", body: checkOdd},
}

// checks looks whether an entry stands.
func (e *env) checks(s session, line driver.Line, own driver.Joined, stands bool, what string) {
	err := s.Check(e.soon(), line, own.Place.Key, own.Token)
	if stands {
		e.ok(err, "Check of "+what)
		return
	}
	e.is(err, "Check of "+what, driver.ErrGone)
}

// checkAfterLeave: whoever asks is told by another session, over another way, that the entry has left, and no view of its
// own may say otherwise.
func checkAfterLeave(e *env) {
	d, third := e.duel(), e.open()
	for _, s := range []session{d.behind, third} {
		e.checks(s, d.line, d.first, true, "an entry that stands")
	}
	e.leave(d.ahead, d.line, d.first.Place)
	for _, s := range []session{d.behind, third, d.ahead} {
		e.checks(s, d.line, d.first, false, "an entry that has left")
	}
}

func checkAfterConvert(e *env) {
	d := e.duel()
	e.checks(d.behind, d.line, d.first, true, "an entry that stands")
	e.convert(d.ahead, d.line, d.first, "r", "")
	e.checks(d.behind, d.line, d.first, false, "an entry that was converted")
	e.checks(d.ahead, d.line, d.first, false, "an entry that was converted")
}

func checkAfterExpire(e *env) {
	d := e.duel()
	e.checks(d.behind, d.line, d.first, true, "an entry that stands")
	e.ok(e.svc.Expire(e.soon(), d.ahead), "Expire of the harness")
	e.checks(d.behind, d.line, d.first, false, "an entry of a session that has ended")
}

func checkTokens(e *env) {
	d := e.duel()
	for _, token := range []driver.Token{0, -1, 1, d.first.Token - 1, d.first.Token + 1, d.second.Token} {
		forged := d.first
		forged.Token = token
		if token != d.first.Token {
			e.checks(d.behind, d.line, forged, false, fmt.Sprintf("an entry with token %d instead of %d", token, d.first.Token))
		}
	}
	moved := e.convert(d.ahead, d.line, d.first, "r", "")
	moved.Token++
	e.checks(d.behind, d.line, moved, false, "a converted entry with another token")
}

func checkLines(e *env) {
	d := e.duel()
	other := driver.Line(string(d.line) + "-")
	e.checks(d.behind, e.line(), d.first, false, "an entry of another line")
	e.checks(d.behind, other, d.first, false, "an entry of a line with a shorter name")
	own := e.join(d.ahead, other)
	e.checks(d.behind, d.line, own, false, "an entry of a line with a longer name")
	e.checks(d.behind, other, own, true, "the entry of that line")
}

func checkLater(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), contender()
	e.join(other, line) // an empty line might be cleaned away, and count anew
	old := e.joinAs(s, line, c)
	e.leave(s, line, old.Place)
	now := e.joinAs(s, line, c)
	e.checks(other, line, old, false, "an earlier entry of the same ID")
	e.checks(other, line, now, true, "the entry of the same ID that stands")
	old.Token = now.Token
	e.checks(other, line, old, false, "the key of an earlier entry with the token of the one that stands")
}

func checkSessions(e *env) {
	d := e.duel()
	for _, s := range []session{d.ahead, d.behind, e.open()} {
		e.checks(s, d.line, d.first, true, "the first entry")
		e.checks(s, d.line, d.second, true, "the second entry")
	}
}

func checkConverted(e *env) {
	d := e.duel()
	moved := e.convert(d.ahead, d.line, d.first, "r", "")
	e.checks(d.behind, d.line, moved, true, "a converted entry")
	moved = e.convert(d.ahead, d.line, moved, "s", "")
	e.checks(d.behind, d.line, moved, true, "an entry that was converted twice")
	e.leave(d.ahead, d.line, moved.Place)
	e.checks(d.behind, d.line, moved, false, "a converted entry that has left")
}

// oddKeys are keys that no entry of a line has, beside one that an entry has.
func oddKeys(line driver.Line, key string) []string {
	return []string{
		"", ".", "..", "/", "../" + key, key + "/", key + "x", "x" + key, key[:len(key)-1], strings.ToUpper(key) + "Z", "@", "@1",
		string(line), "\x00", "a\x00b", "\xff\xfe", strings.Repeat("k", 3000),
	}
}

// checkOdd: a key comes from elsewhere, and whoever forged it must learn nothing and reach nothing else.
func checkOdd(e *env) {
	d := e.duel()
	key := d.first.Place.Key
	for _, odd := range oddKeys(d.line, key) {
		forged := d.first
		forged.Place.Key = odd
		e.checks(d.behind, d.line, forged, false, fmt.Sprintf("the key %.40q instead of %q", odd, key))
	}
}
