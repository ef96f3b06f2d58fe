package fence

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// Scope says what a token is for. Only tokens of one scope can be compared.
type Scope struct {
	// Service is the identity of the service and namespace: see
	// coordinator.Session.Service.
	Service string
	// Kind ("mutex", "rwlock", "semaphore", "election") and Name are the
	// recipe's.
	Kind, Name string
}

// String returns the scope in visible ASCII: "4f0c…:mutex/orders".
func (s Scope) String() string { return s.Service + ":" + string(driver.NewQueue(s.Kind, s.Name)) }

// ParseScope parses a scope without empty fields, as String writes it. Other
// text is driver.ErrInvalid.
func ParseScope(text string) (Scope, error) {
	s, ok := splitScope(text)
	if !ok || s.check() != nil {
		return Scope{}, invalid("scope %.80q; want service:kind/name", text)
	}
	return s, nil
}

func splitScope(text string) (Scope, bool) {
	service, queue, _ := strings.Cut(text, ":")
	kind, name, ok := driver.Queue(queue).Split()
	return Scope{Service: service, Kind: kind, Name: name}, ok
}

var (
	serviceRule = regexp.MustCompile(`^[!-+\--9;-~]{1,64}$`)
	kindRule    = regexp.MustCompile(`^[a-z-]+$`)
)

func (s Scope) check() error {
	switch {
	case !serviceRule.MatchString(s.Service):
		return invalid("service %.80q; want 1 to 64 visible ASCII characters without colon and comma",
			s.Service)
	case !kindRule.MatchString(s.Kind):
		return invalid("kind %.80q; want letters a to z and \"-\"", s.Kind)
	case s.Name == "" || len(s.Name) > 255:
		return invalid("name %.80q; want 1 to 255 bytes", s.Name)
	}
	return nil
}

// Sequencer identifies one grant to any process. The Sequencer method of a
// lock, permit or term returns it. The zero Sequencer is invalid.
type Sequencer struct {
	Scope
	Token driver.Token
	// Key identifies the entry of the grant at the service. Only the driver
	// reads it.
	Key string
}

const (
	version = "baton1:" // begins the text of every sequencer
	maxText = 8 << 10   // bytes of the longest text that Parse accepts
)

// String returns the sequencer in visible ASCII, fit for a header:
// "baton1:4f0c…:mutex/orders:1234:…".
func (s Sequencer) String() string {
	return version + s.Scope.String() + ":" + s.Token.String() + ":" + escape(s.Key)
}

// Parse parses a sequencer as String writes it. Other text is
// driver.ErrInvalid.
func Parse(text string) (Sequencer, error) {
	rest, ok := strings.CutPrefix(text, version)
	parts := strings.SplitN(rest, ":", 4)
	if !ok || len(parts) < 4 || len(text) > maxText {
		const want = version + "service:kind/name:token:key"
		return Sequencer{}, invalid("%.80q is no sequencer; want %s", text, want)
	}
	scope, err := ParseScope(parts[0] + ":" + parts[1])
	token, err2 := driver.ParseToken(parts[2])
	key, ok := unescape(parts[3])
	if err = cmp.Or(err, err2); err != nil {
		return Sequencer{}, err
	}
	if !ok || key == "" {
		return Sequencer{}, invalid("sequencer with the key %.80q", parts[3])
	}
	return Sequencer{scope, token, key}, nil
}

// Validate returns nil if all fields are set and valid.
func (s Sequencer) Validate() error {
	switch err := s.check(); {
	case err != nil:
		return err
	case s.Token <= 0:
		return invalid("token %d; want a positive one", s.Token)
	case s.Key == "":
		return invalid("sequencer without a key")
	}
	return nil
}

// In returns nil if the sequencer has the scope, else a *ForeignError. Empty
// fields of the scope match any.
func (s Sequencer) In(want Scope) error {
	all := Scope{
		Service: cmp.Or(want.Service, s.Service),
		Kind:    cmp.Or(want.Kind, s.Kind),
		Name:    cmp.Or(want.Name, s.Name),
	}
	if s.Scope != all {
		return &ForeignError{Shown: s, Want: want}
	}
	return nil
}

// Errors that say why access was refused.
var (
	ErrStale   = errors.New("stale token")            // see StaleError
	ErrForeign = errors.New("token of another scope") // see ForeignError
	ErrMissing = errors.New("no sequencer was shown") // the access had none
	// ErrMalformed: what was shown is no sequencer, or there are several. Its
	// errors are driver.ErrInvalid, too.
	ErrMalformed = errors.New("malformed sequencer")
)

// StaleError refuses a token: a greater one was shown before, or the service
// says that the grant is over. It wraps ErrStale.
type StaleError struct {
	Shown Sequencer
	// Latest is the greatest token shown before, or zero if the service was
	// asked.
	Latest driver.Token
}

func (e *StaleError) Error() string {
	reason := ": the grant is over"
	if e.Latest != 0 {
		reason = fmt.Sprintf(", after token %d", e.Latest)
	}
	s := e.Shown
	return fmt.Sprintf("fence: %v: token %d of %s %q%s", ErrStale, s.Token, s.Kind, s.Name, reason)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// ForeignError refuses a token of another service, namespace, kind or name. It
// wraps ErrForeign.
type ForeignError struct {
	Shown Sequencer
	Want  Scope // empty fields match any
}

func (e *ForeignError) Error() string {
	text := fmt.Sprintf("fence: %v: token %d of %s; want one of %s",
		ErrForeign, e.Shown.Token, e.Shown.Scope, e.Want)
	// The same lock of another service: an operator may have replaced the
	// service, or it lost its data.
	here := e.Want
	here.Service = ""
	if e.Want.Service != "" && e.Want.Service != e.Shown.Service && e.Shown.In(here) == nil {
		text += "; if that service was replaced, reset the resource's guard or gate"
	}
	return text
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// escape percent-encodes all but visible ASCII, and the comma, with which HTTP
// joins the values of several headers of one name.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c <= '~' && c != '%' && c != ',' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape inverts escape. It rejects other encodings of the same string.
func unescape(s string) (string, bool) {
	plain, err := url.PathUnescape(s)
	return plain, err == nil && escape(plain) == s
}

// malformed is an ErrMalformed with its reason.
type malformed struct{ why string }

func invalid(format string, args ...any) error { return &malformed{fmt.Sprintf(format, args...)} }

func (e *malformed) Error() string   { return fmt.Sprintf("fence: %v: %s", driver.ErrInvalid, e.why) }
func (e *malformed) Unwrap() []error { return []error{ErrMalformed, driver.ErrInvalid} }
