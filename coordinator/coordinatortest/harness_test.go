package coordinatortest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

const testTTL = 10 * time.Second

// world is one memory service, whose drivers wrap breaks.
type world struct {
	svc  *memory.Service
	wrap func(*world, driver.Driver) driver.Driver

	stalled atomic.Bool // for flaws: the driver under test does not notice it

	open  sync.Map // for flaws: intact sessions by ID, or markers
	once  sync.Once
	spare driver.Session // see observer
	stale bool           // an external session is not renewed when it is opened
}

// memoryHarness is the harness of the memory driver, which wrap may break. Each
// case has a new service.
func memoryHarness(wrap func(*world, driver.Driver) driver.Driver, opts ...memory.Option) Harness {
	opts = append([]memory.Option{memory.WithTTLRange(time.Second, time.Hour)}, opts...)
	return Harness{
		TTL: testTTL, OddTTL: time.Millisecond, GrantedTTL: time.Second,
		Bubble: synctest.Test,
		Start: func(*testing.T) Service {
			w := &world{svc: memory.NewService(opts...), wrap: wrap}
			return w.service()
		},
	}
}

func (w *world) service() Service {
	return Service{
		Connect: func() (Client, error) {
			d := w.svc.Driver()
			c := Client{Driver: d, Link: d, Events: func() int { return d.Stats().Wakeups }}
			if w.wrap != nil {
				c.Driver = w.wrap(w, d)
			}
			c.External = func(ctx context.Context) (driver.Driver, error) {
				s, err := c.Driver.Open(ctx, testTTL)
				return external(w, c.Driver, s), err
			}
			return c, nil
		},
		Expire: func(_ context.Context, s driver.Session) error { return found(w.svc.Expire(s.ID())) },
		Remove: func(_ context.Context, queue driver.Queue, p driver.Place) error {
			return found(w.svc.Remove(queue, p.ID))
		},
		Restart: func(context.Context) error {
			w.svc.Stop()
			time.Sleep(time.Second)
			w.svc.Start()
			return nil
		},
		Compact: func(context.Context) error { return nil }, // the service has no history
		Stall: func(context.Context, Client) (func(), error) {
			w.stalled.Store(true)
			return func() { w.stalled.Store(false) }, nil
		},
		Watches:  func(context.Context) (int, error) { return w.svc.Stats().Watches, nil },
		Sessions: func(context.Context) (int, error) { return w.svc.Stats().Sessions, nil },
	}
}

// external returns a driver whose Open returns s.
func external(w *world, d driver.Driver, s driver.Session) driver.Driver {
	return &patchedDriver{Driver: d, open: func(ctx context.Context, _ time.Duration) (driver.Session, error) {
		if w.stale {
			return s, nil
		}
		return s, s.Renew(ctx)
	}}
}

func found(ok bool) error {
	if !ok {
		return errors.New("not found")
	}
	return nil
}

// TestSuiteRunsWithoutLevers: authors can run the suite before they write a
// proxy.
func TestSuiteRunsWithoutLevers(t *testing.T) {
	full := memoryHarness(func(_ *world, d driver.Driver) driver.Driver {
		return &patchedDriver{Driver: d, open: func(ctx context.Context, ttl time.Duration) (driver.Session, error) {
			s, err := d.Open(ctx, ttl)
			return bareSession{s}, err
		}}
	})
	bare := Harness{TTL: testTTL, Bubble: full.Bubble, Lacks: map[Lever]string{}}
	bare.Start = func(t *testing.T) Service {
		connect := full.Start(t).Connect
		return Service{Connect: func() (Client, error) {
			c, err := connect()
			return Client{Driver: c.Driver}, err
		}}
	}
	for _, c := range cases {
		for _, lever := range c.needs {
			bare.Lacks[lever] = "none in this test"
		}
	}
	Run(t, bare)
}

// bareSession is a session without capabilities.
type bareSession struct{ driver.Session }

func (bareSession) Capabilities() driver.Capabilities { return driver.Capabilities{} }

func TestHarnessMustNameWhatItLacks(t *testing.T) {
	full := memoryHarness(nil).withDefaults()
	for _, x := range []struct {
		name  string
		lacks map[Lever]string
		edit  func(*Service)
		want  string
	}{
		{"complete", nil, func(*Service) {}, ""},
		{"missing and not named", nil, func(s *Service) { s.Expire = nil }, "without Expire"},
		{"the second of two that are missing", nil, func(s *Service) { s.Expire, s.Remove = nil, nil }, "without Remove"},
		{"named without a reason", map[Lever]string{Expire: ""}, func(s *Service) { s.Expire = nil }, "Expire without a reason"},
		{"named, but not missing", map[Lever]string{Expire: "x"}, func(*Service) {}, "names Expire, which is there"},
		{"capability named, but not missing", map[Lever]string{Writer: "x"}, func(*Service) {}, "names Writer, which is there"},
		{"unknown", map[Lever]string{"Expire ": "x"}, func(*Service) {}, "unknown lever"},
		{"no way to connect", nil, func(s *Service) { s.Connect = nil }, "required"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := full
			h.Lacks = x.lacks
			h.Start = func(t *testing.T) Service {
				svc := full.Start(t)
				x.edit(&svc)
				return svc
			}
			if err := probe(t, h); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, want an error with %q", x.name, err, x.want)
			}
		})
	}
}

func TestHarnessMustNameCasesThatExist(t *testing.T) {
	h := memoryHarness(nil).withDefaults()
	h.Without = map[string]string{"J8/": "a prefix of cases", "Mode/": "a prefix of none"}
	synctest.Test(t, func(t *testing.T) {
		if err := probe(t, h); err == nil || !strings.Contains(err.Error(), `"Mode/"`) {
			t.Errorf("%v, want an error with the unknown prefix", err)
		}
	})
}

func TestMissingLeversAreReportedByClause(t *testing.T) {
	h := memoryHarness(nil).withDefaults()
	h.Lacks = map[Lever]string{Network: "no proxy here", OddTTL: "every ttl is granted"}
	got := coverage(h)
	for _, want := range []string{
		"clause O2: 0 of 1 cases ran", "harness lacks OddTTL: every ttl is granted",
		"clause F1: 1 of 4 cases ran", "F1/forget prevents a join under way",
		"clause C3: no case: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("coverage lacks %q:\n%s", want, got)
		}
	}
}

func TestCaseIsRepeatedOnlyAfterErrorsOfAvailability(t *testing.T) {
	for _, c := range []struct {
		err  error
		runs int
	}{
		{driver.Wrap(driver.ErrUnavailable, errors.New("connection closed")), 3},
		{driver.ErrSessionLost, 3},
		{driver.ErrRefused, 1},
		{nil, 1},
	} {
		h := memoryHarness(nil).withDefaults()
		h.Attempts = 3
		runs := 0
		failing := testCase{name: "J3/claim", body: func(e *env) {
			runs++
			e.fail("no error", "Join: %v", c.err)
		}}
		if err := failing.attempt(t, h); err == nil {
			t.Errorf("a case that fails with %v passes", c.err)
		}
		if runs != c.runs {
			t.Errorf("a case that fails with %v ran %d times, want %d", c.err, runs, c.runs)
		}
	}
}
