package recipes

import (
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// Terms are what all contenders of a queue must agree on, for instance the
// limit of a semaphore. They are stored in the queue's record. A join compares
// the record's version in the same step, so every contender is queued with the
// terms that are stored at that moment.
type Terms struct {
	// Initial is written if the queue has no record. If Initial is empty, that
	// is the error None.
	Initial []byte
	None    error // nil: ErrNoRecord
	// Rule returns the rule for a record, or an error if the contender does not
	// accept it. joined: the contender is queued, and the record has changed.
	Rule func(record driver.Record, joined bool) (Rule, error)
	// Mode returns the mode of a contender that joins with a version of the
	// record. nil: the mode of the request.
	Mode func(driver.Version) string
	// Held is the mode to which an admitted contender is converted if another
	// contender is behind it, or after engine.SettleAfter. Empty: none.
	Held string
	// Counts reports whether an entry of a mode behind a contender counts for
	// it after its record has changed. The rule gets the places of such entries
	// in front of those ahead. nil: none counts.
	Counts func(mode string) bool
}

// ErrNoRecord means that the queue has no record.
var ErrNoRecord = errors.New("nothing is stored at the name")
