package fence

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// Scope is where a token counts: tokens of one scope can be compared, and no others.
type Scope struct {
	// Service is the identity of the service and the namespace in it: see
	// coordinator.Session.Service.
	Service string
	// Kind is that of the recipe ("mutex", "rwlock", "semaphore", "election"),
	// and Name is the recipe's.
	Kind, Name string
}

// String writes the scope in visible ASCII: "4f0c…:mutex/orders". ParseScope reads it.
func (s Scope) String() string { return s.Service + ":" + string(driver.NewQueue(s.Kind, s.Name)) }

// ParseScope reads what String wrote of a scope without empty fields. Anything
// else is driver.ErrInvalid.
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

func (s Scope) check() error {
	switch {
	case s.Service == "" || len(s.Service) > 64 || strings.ContainsFunc(s.Service, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return invalid("service %.80q; want 1 to 64 visible ASCII characters without a colon", s.Service)
	case s.Kind == "" || strings.ContainsFunc(s.Kind, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }):
		return invalid("kind %.80q; want letters a to z and \"-\"", s.Kind)
	case s.Name == "" || len(s.Name) > 255:
		return invalid("name %.80q; want 1 to 255 bytes", s.Name)
	}
	return nil
}

// Sequencer tells of one grant, in any process: whose token it is, and which
// entry at the service stands for it. It is made by the Sequencer method of a
// lock, permit or term. It is comparable; the zero Sequencer is none.
type Sequencer struct {
	Scope
	Token driver.Token
	// Key is the service's own handle of the entry that holds, opaque to all but the driver.
	Key string
}

// version begins the text of every sequencer.
const version = "baton1:"

// maxText is the length of the longest text that is read, in bytes.
const maxText = 8 << 10

// String writes the sequencer in visible ASCII, fit for a header:
// "baton1:4f0c…:mutex/orders:1234:…". Parse reads it.
func (s Sequencer) String() string {
	return version + s.Scope.String() + ":" + s.Token.String() + ":" + escape(s.Key)
}

// Parse reads what String wrote. Anything else is driver.ErrInvalid.
func Parse(text string) (Sequencer, error) {
	rest, ok := strings.CutPrefix(text, version)
	parts := strings.SplitN(rest, ":", 4)
	if !ok || len(parts) < 4 || len(text) > maxText {
		return Sequencer{}, invalid("%.80q is no sequencer; want %sservice:kind/name:token:key", text, version)
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

// Validate returns nil if the sequencer can be one that was granted: all of its
// fields are set, and within their bounds. It asks nobody.
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

// MarshalText is String for encoders. A sequencer that is none is an error.
func (s Sequencer) MarshalText() ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return []byte(s.String()), nil
}

// UnmarshalText is Parse for decoders.
func (s *Sequencer) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// Compare returns -1, 0 or 1 as s was granted before other, is of the same
// grant, or was granted after it. Sequencers of different scopes are not
// compared: the error is a *ForeignError then.
func (s Sequencer) Compare(other Sequencer) (int, error) {
	if s.Scope != other.Scope {
		return 0, &ForeignError{Shown: other, Want: s.Scope}
	}
	return cmp.Compare(s.Token, other.Token), nil
}

// In returns nil if the sequencer is of a scope, of which empty fields count
// for any, and else a *ForeignError.
func (s Sequencer) In(want Scope) error {
	if (want.Service == "" || want.Service == s.Service) && (want.Kind == "" || want.Kind == s.Kind) && (want.Name == "" || want.Name == s.Name) {
		return nil
	}
	return &ForeignError{Shown: s, Want: want}
}

// Errors that say why access was refused.
var (
	// ErrStale: the grant is over. See StaleError.
	ErrStale = errors.New("stale token")
	// ErrForeign: the token is of another service or name than the one that
	// counts here. See ForeignError.
	ErrForeign = errors.New("token of another scope")
	// ErrMissing: access without a sequencer.
	ErrMissing = errors.New("no sequencer was shown")
)

// StaleError refuses a token because a greater one was here before, or because
// the service says that its grant is over. It is ErrStale.
type StaleError struct {
	Shown  Sequencer
	Latest driver.Token // the greatest that was seen; zero if the service was asked, which does not tell
}

func (e *StaleError) Error() string {
	if e.Latest == 0 {
		return fmt.Sprintf("fence: %v: token %d of %s %q: the grant is over", ErrStale, e.Shown.Token, e.Shown.Kind, e.Shown.Name)
	}
	return fmt.Sprintf("fence: %v: token %d of %s %q, after token %d", ErrStale, e.Shown.Token, e.Shown.Kind, e.Shown.Name, e.Latest)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// ForeignError refuses a token that cannot be compared with those that count
// here: another service, namespace, kind or name gave it out. It is ErrForeign.
type ForeignError struct {
	Shown Sequencer
	Want  Scope // fields that may be anything are empty
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("fence: %v: token %d of %s, where those of %s count", ErrForeign, e.Shown.Token, e.Shown.Scope, e.Want)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// escape keeps visible ASCII as it is, but for "%".
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape reads what escape wrote, and nothing else.
func unescape(s string) (string, bool) {
	plain, err := url.PathUnescape(s)
	return plain, err == nil && escape(plain) == s
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
