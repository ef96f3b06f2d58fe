package semaphore

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// FuzzLimitRecord: any record is a limit or is refused, and an encoded limit
// decodes to itself.
func FuzzLimitRecord(f *testing.F) {
	for _, v := range []string{`{"limit":3}`, `{"limit":0}`, `{"limit":-1}`, `{"limit":1e9}`,
		`{"limit":1.5}`, `{"limit":99999999999999999999}`, "3", "", "null", "{}", `{"Limit":3}`} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		limit, err := new(Semaphore).decode(record)
		if err != nil {
			if !errors.Is(err, coordinator.ErrRefused) || limit != 0 {
				t.Errorf("%q: %d, %v", record, limit, err)
			}
			return
		}
		if limit < 1 || limit > MaxLimit {
			t.Errorf("%q: %d", record, limit)
		}
		if again, err := new(Semaphore).decode(stored{limit}.encode()); again != limit ||
			err != nil {
			t.Errorf("%d decodes as %d, %v", limit, again, err)
		}
	})
}

// FuzzSlotsRecord: with any record of slots, a holder gets one number per
// permit, none twice, none below zero, and none of another queued contender.
func FuzzSlotsRecord(f *testing.F) {
	for _, v := range []string{`{}`, `null`, `{"a":[0,1],"b":[2]}`, `{"a":[0,0]}`, `{"a":[-1]}`,
		`{"b":[-1,5]}`, `{"a":[2],"b":[2]}`, `{"a":null}`, `{"a":[0,1,2,3,4,5]}`} {
		f.Add([]byte(v), uint8(2))
	}
	f.Fuzz(func(t *testing.T, record []byte, permits uint8) {
		var all numbers
		if json.Unmarshal(record, &all) != nil || len(record) > maxRecord {
			return
		}
		if all == nil {
			all = numbers{}
		}
		n := int(permits%16) + 1
		queued := []recipes.Contender{{ID: "a"}, {ID: "b"}}
		mine, err := all.assign("a", n, queued)
		if err != nil || len(mine) != n {
			t.Fatalf("%q: %v, %v; want %d", record, mine, err, n)
		}
		has := map[int]bool{}
		for _, slot := range all["b"] {
			has[slot] = true
		}
		for _, slot := range mine {
			if slot < 0 || has[slot] {
				t.Errorf("%q: %v beside %v", record, mine, all["b"])
			}
			has[slot] = true
		}
	})
}

// FuzzPermitsMode: a mode that parses is written as it was, and counts in the
// rule.
func FuzzPermitsMode(f *testing.F) {
	for _, mode := range []string{"p3v00a1", "h3", "p3", "h3v00a1", "p0v0000", "p+3v0000",
		"p03v0000", "h03", "h+3", "p3v00A1", "x", "", "p1000000001v0000", "h1000000000"} {
		f.Add(mode)
	}
	f.Fuzz(func(t *testing.T, mode string) {
		c, ok := parseMode(mode)
		if !ok {
			return
		}
		want := askingMode(c.n, c.version)
		if c.held {
			want = holdingMode(c.n)
		}
		if mode != want || c.n < 1 || c.n > MaxLimit || saysHeld(mode) != c.held {
			t.Errorf("%q parses as %+v, which is written %q", mode, c, want)
		}
	})
}
