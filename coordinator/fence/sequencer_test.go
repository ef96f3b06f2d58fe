package fence_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// orders returns a sequencer with a token.
func orders(token driver.Token) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "4f0c", Kind: "mutex", Name: "orders"}, Token: token, Key: "e1"}
}

// named returns orders(5) as f changes it.
func named(f func(*fence.Sequencer)) fence.Sequencer {
	s := orders(5)
	f(&s)
	return s
}

func TestParseInvertsString(t *testing.T) {
	for _, s := range []fence.Sequencer{
		orders(1), orders(math.MaxInt64),
		named(func(s *fence.Sequencer) { s.Name = "a/b:c d%41é\u00ff" }),
		named(func(s *fence.Sequencer) { s.Key = "ns/./mutex/a%2Fb/0123-x@42" }),
		named(func(s *fence.Sequencer) { s.Key = "a:b:c" }),
		named(func(s *fence.Sequencer) { s.Key = "\x00 \xff%" }),
		named(func(s *fence.Sequencer) { s.Name, s.Service = strings.Repeat("/", 255), strings.Repeat("s", 64) }),
	} {
		text := s.String()
		if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
			t.Errorf("%q is not fit for a header at %d", text, i)
		}
		if got, err := fence.Parse(text); got != s || err != nil {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	if got, want := orders(5).String(), "baton1:4f0c:mutex/orders:5:e1"; got != want {
		t.Errorf("written as %q, want %q: others may have stored it", got, want)
	}
}

func TestMalformedSequencersAreRefused(t *testing.T) {
	good := orders(5).String()
	for _, text := range []string{
		"", "5", "baton1", "baton1:", good[:len(good)-2], good + "\n", good + "%", good + "%zz", good + "%41", good + "%2f", " " + good, strings.ToUpper(good),
		"baton2:4f0c:mutex/orders:5:e1", "baton1:4f0c:mutex/orders:e1", "baton1::mutex/orders:5:e1", "baton1:4f 0c:mutex/orders:5:e1",
		"baton1:4f0c:mutex:5:e1", "baton1:4f0c:/orders:5:e1", "baton1:4f0c:mutex/:5:e1", "baton1:4f0c:Mutex/orders:5:e1",
		"baton1:4f0c:mutex/a/b:5:e1", "baton1:4f0c:mutex/a%2fb:5:e1", "baton1:4f0c:mutex/%61:5:e1", "baton1:4f0c:mutex/a b:5:e1",
		"baton1:4f0c:mutex/orders:0:e1", "baton1:4f0c:mutex/orders:-5:e1", "baton1:4f0c:mutex/orders:05:e1", "baton1:4f0c:mutex/orders:+5:e1",
		"baton1:4f0c:mutex/orders:9223372036854775808:e1", "baton1:4f0c:mutex/orders:0x5:e1", "baton1:4f0c:mutex/orders:5:",
		"baton1:" + strings.Repeat("s", 65) + ":mutex/orders:5:e1", "baton1:4f0c:mutex/" + strings.Repeat("n", 256) + ":5:e1",
		good + strings.Repeat("k", 8<<10),
	} {
		if s, err := fence.Parse(text); !errors.Is(err, driver.ErrInvalid) || s != (fence.Sequencer{}) {
			t.Errorf("%.60q is read as %+v, %v", text, s, err)
		}
	}
	for what, s := range map[string]fence.Sequencer{
		"zero":        {},
		"no service":  named(func(s *fence.Sequencer) { s.Service = "" }),
		"odd service": named(func(s *fence.Sequencer) { s.Service = "a:b" }),
		"no kind":     named(func(s *fence.Sequencer) { s.Kind = "" }),
		"odd kind":    named(func(s *fence.Sequencer) { s.Kind = "a/b" }),
		"no name":     named(func(s *fence.Sequencer) { s.Name = "" }),
		"no token":    orders(0),
		"no key":      named(func(s *fence.Sequencer) { s.Key = "" }),
	} {
		if err := s.Validate(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(orders(5).String())
	f.Add("baton1:4f0c:mutex/a%2Fb:9223372036854775807:ns/./mutex/a%252Fb/0123-x@42")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fence.Parse(text)
		if err != nil {
			return
		}
		if s.String() != text || s.Validate() != nil {
			t.Errorf("%q is read as %+v, which is written as %q (%v)", text, s, s, s.Validate())
		}
	})
}

// foreign returns sequencers of other scopes than that of orders.
func foreign() []fence.Sequencer {
	return []fence.Sequencer{
		named(func(s *fence.Sequencer) { s.Service = "4f0d" }),
		named(func(s *fence.Sequencer) { s.Kind = "rwlock" }),
		named(func(s *fence.Sequencer) { s.Name = "Orders" }),
	}
}

func TestEmptyFieldsOfAScopeMatchAny(t *testing.T) {
	all := append(foreign(), orders(5))
	for want, takes := range map[fence.Scope]int{
		{}:                               4,
		{Service: "4f0c"}:                3,
		{Kind: "mutex"}:                  3,
		{Kind: "mutex", Name: "orders"}:  2,
		orders(5).Scope:                  1,
		{Service: "4f0c", Name: "Order"}: 0,
	} {
		n := 0
		for _, s := range all {
			if err := s.In(want); err == nil {
				n++
			} else if !errors.Is(err, fence.ErrForeign) {
				t.Error(err)
			}
		}
		if n != takes {
			t.Errorf("%+v takes %d of %d, want %d", want, n, len(all), takes)
		}
	}
}

func TestDecodeRefusalInvertsEncodeRefusal(t *testing.T) {
	shown := orders(5)
	for _, err := range []error{
		&fence.StaleError{Shown: shown, Latest: 7},
		&fence.StaleError{Shown: shown},
		&fence.ForeignError{Shown: shown, Want: fence.Scope{Service: "x", Kind: "mutex", Name: "a b:c"}},
		&fence.ForeignError{Shown: shown, Want: fence.Scope{Kind: "mutex", Name: "a"}},
		&fence.ForeignError{Shown: shown, Want: fence.Scope{Service: "x"}},
	} {
		got := fence.DecodeRefusal(shown, fence.EncodeRefusal(err))
		if got == nil || got.Error() != err.Error() || errors.Is(got, fence.ErrStale) != errors.Is(err, fence.ErrStale) {
			t.Errorf("%q: %v, want %v", fence.EncodeRefusal(err), got, err)
		}
	}
	for _, text := range []string{"", "stale", "stale -1", "stale x", "foreign", "foreign x", "late 7", fence.EncodeRefusal(errors.New("stale 7"))} {
		if err := fence.DecodeRefusal(shown, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
