package recipes

import (
	"bytes"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
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
		c := new(Queue).contender(driver.Entry{Token: 7, Value: value})
		if c.Token != 7 {
			t.Errorf("%q: %+v", value, c)
		}
		if c.Identity == "" && (!bytes.Equal(c.Payload, value) || !c.Since.IsZero()) {
			t.Errorf("%q is not shown as it is: %+v", value, c)
		}
	})
}
