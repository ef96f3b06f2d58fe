package fence

import (
	"errors"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// ParseValues parses the values of a header or of metadata. No value is
// ErrMissing, and several are driver.ErrInvalid, also if a proxy has joined
// them with commas.
func ParseValues(values []string) (Sequencer, error) {
	switch {
	case len(values) == 0:
		return Sequencer{}, ErrMissing
	case len(values) > 1 || strings.Contains(values[0], ","):
		return Sequencer{}, invalid("several sequencers")
	}
	return Parse(values[0])
}

// EncodeRefusal encodes a refusal for transports, in visible ASCII and blanks:
// "stale 1234", "foreign 4f0c…:mutex/orders", "missing". It returns "" for
// other errors.
func EncodeRefusal(err error) string {
	if errors.Is(err, ErrMissing) {
		return "missing"
	}
	if stale, ok := errors.AsType[*StaleError](err); ok {
		return "stale " + stale.Latest.String()
	}
	if foreign, ok := errors.AsType[*ForeignError](err); ok {
		return "foreign " + foreign.Want.String()
	}
	return ""
}

// DecodeRefusal returns the error that EncodeRefusal encoded, for the sequencer
// that was shown. It returns nil for any other text.
func DecodeRefusal(shown Sequencer, text string) error {
	switch what, detail, _ := strings.Cut(text, " "); what {
	case "missing":
		return ErrMissing
	case "stale":
		if latest, err := strconv.ParseInt(detail, 10, 64); err == nil && latest >= 0 {
			return &StaleError{Shown: shown, Latest: driver.Token(latest)}
		}
	case "foreign":
		if want, ok := splitScope(detail); ok {
			return &ForeignError{Shown: shown, Want: want}
		}
	}
	return nil
}
