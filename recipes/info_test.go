package recipes_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// TestIdentityOfAnotherCannotForgeALine: anyone who may write to the queue
// chooses the identity. One that Baton's clients cannot have makes the entry a
// foreign one; an allowed one that a terminal does not show is quoted.
func TestIdentityOfAnotherCannotForgeALine(t *testing.T) {
	for identity, shown := range map[string]bool{
		"x\x1b[2J\nlevel=ERROR msg=forged": false, "x\u009b": false, strings.Repeat("x", 256): false,
		"x\u202ey\u2028z": true, "Jürgen’s host/7": true,
	} {
		inWorld(t, func(w world) {
			value, err := json.Marshal(map[string]any{"identity": identity, "payload": []byte("p")})
			check(w, err)
			s := w.session(w.b)
			_, err = s.Join(w.Context(), name, driver.Contender{ID: s.NewID(false), Mode: "w", Value: value})
			check(w, err)
			try := write
			try.Try = true
			_, err = w.a.queue.Acquire(w.Context(), try)
			var taken *recipes.TakenError
			if !errors.As(err, &taken) || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				w.Errorf("%q: error %v", identity, err)
				return
			}
			h := taken.Holder
			if shown != (h.Identity == identity) || shown != (string(h.Payload) == "p") ||
				shown && !strings.Contains(err.Error(), engine.Printable(identity)) {
				w.Errorf("%q: %+v, %v", identity, h, err)
			}
			if !shown && (h.Identity != "" || string(h.Payload) != string(value)) {
				w.Errorf("%q: %+v", identity, h)
			}
		})
	}
}
