package register

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestFateIsRight: random histories of writers, of which one has no reply, with
// records written by hand in between. The record says the truth about the
// write, or nothing; and it does say it while at most maxWriters-1 other
// writers have written and nobody has written by hand.
func TestFateIsRight(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		h := &service{t: t, r: r, past: make([]driver.Record, 1), others: make(map[string]bool)}
		for range r.IntN(60) {
			h.step()
		}
		w := h.now().next("mine", 1)
		if len(w.bytes) > 1500 || len(w.Writers) > maxWriters {
			t.Fatalf("a record of %d bytes with %d writers", len(w.bytes), len(w.Writers))
		}
		h.others, h.byHand = make(map[string]bool), string(h.value) == "12"
		sent := h.version
		wasApplied := false
		for i := range 2 + r.IntN(60) {
			if i == 1 && h.version == sent && r.IntN(2) == 0 {
				h.set(w.bytes)
				wasApplied = true
			}
			if past := h.past[r.IntN(len(h.past))]; past.Version < sent { // a server that is behind
				if got := w.fate(decode(past)); got != unknown {
					t.Fatalf("seed %d: %d from an older record", seed, got)
				}
			}
			got := w.fate(h.now())
			switch {
			case h.version == sent:
				if got != pending {
					t.Fatalf("seed %d: %d over the version to replace", seed, got)
				}
			case got == applied && !wasApplied, got == refused && wasApplied, got == pending:
				t.Fatalf("seed %d: %d; applied: %v", seed, got, wasApplied)
			case got == unknown && !h.byHand && len(h.others) < maxWriters:
				t.Fatalf("seed %d: unknown after %d writers", seed, len(h.others))
			}
			if i > 0 {
				h.step()
			}
		}
	}
}

// service is the record of a counter at a service.
type service struct {
	t       *testing.T
	r       *rand.Rand
	version driver.Version
	value   []byte
	past    []driver.Record
	others  map[string]bool // have written
	byHand  bool
}

func (h *service) now() State {
	now := decode(driver.Record{Value: h.value, Version: h.version})
	if now.bad != nil {
		h.t.Fatal(now.bad)
	}
	return now
}

func (h *service) set(value []byte) {
	h.past = append(h.past, driver.Record{Value: h.value, Version: h.version})
	h.version, h.value = h.version+1, value
}

// step is a write of another client, or rarely by hand.
func (h *service) step() {
	switch h.r.IntN(400) {
	case 0:
		h.set([]byte("12"))
		h.byHand = true
	default:
		who := fmt.Sprint(h.r.IntN(40))
		h.others[who] = true
		h.set(h.now().next(who, 3).bytes)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"1", "-1", `{"value":1}`, `{"value":1,"writes":4,"writers":{"a":4}}`, "x", "null", "[]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		now := decode(driver.Record{Value: value, Version: 1})
		if now.bad != nil {
			return
		}
		w := now.next("w", now.Value)
		var again record
		if err := json.Unmarshal(w.bytes, &again); err != nil || again.Value != now.Value {
			t.Errorf("%q became %q: %v", value, w.bytes, err)
		}
	})
}
