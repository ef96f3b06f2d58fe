package recipes_test

import (
	"bytes"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// FuzzEntryValue: a listing shows any value, decoded or as it is, without an
// error.
func FuzzEntryValue(f *testing.F) {
	for _, v := range []string{
		"", "{}", "null", "[]", `{"identity":"me","since":"2020-01-02T03:04:05Z","payload":"AAE="}`,
		`{"identity":1}`,
		`{"identity":"me","payload":"%"}`, `{"identity":"me","since":"yesterday"}`,
		"5b1a1fda4375804", "\xff\x00",
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		inWorld(t, func(w world) {
			s := w.session(w.b)
			joined, err := s.Join(w.Context(), name, driver.Contender{ID: s.NewID(false), Mode: "w", Value: value})
			check(w, err)
			all, err := w.a.queue.List(w.Context(), func(string) recipes.Rule { return recipes.Exclusive })
			check(w, err)
			if len(all) != 1 || all[0].Token != joined.Token {
				w.Fatalf("%q: %+v", value, all)
			}
			c := all[0]
			if c.Identity == "" && (!bytes.Equal(c.Payload, value) || !c.Since.IsZero()) {
				w.Errorf("%q is not shown as it is: %+v", value, c)
			}
		})
	})
}
