package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// seconds is a flag with a duration, where plain numbers are seconds, as flock and timeout have it.
type seconds struct{ d *time.Duration }

func (s seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, failed := strconv.ParseFloat(text, 64); failed == nil {
		if n*float64(time.Second) > math.MaxInt64 || math.IsNaN(n) {
			return fmt.Errorf("%s seconds are too many", text)
		}
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 1m30s", text)
	}
	if d < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	*s.d = d
	return nil
}

func (s seconds) String() string {
	if s.d == nil || *s.d == 0 {
		return ""
	}
	return s.d.String()
}

func (s seconds) Type() string { return "duration" }
