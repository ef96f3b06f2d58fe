package driver_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestParseTokenInvertsString(t *testing.T) {
	for _, token := range []driver.Token{1, 9, 10, 1 << 40, math.MaxInt64} {
		if got, err := driver.ParseToken(token.String()); got != token || err != nil || fmt.Sprint(token) != fmt.Sprintf("%d", token) {
			t.Errorf("%d is written %q and read as %d, %v", int64(token), token, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1_000", "0x1", "1e3", "1.0", "9223372036854775808", "٣"} {
		if got, err := driver.ParseToken(s); got != 0 || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q is read as %d, %v", s, got, err)
		}
	}
}
