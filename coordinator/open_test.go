package coordinator_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// opened is the URL of the last call of the opener of the scheme "probe".
var opened *url.URL

func init() {
	coordinator.Register("probe", func(u *url.URL) (driver.Driver, error) {
		opened = u
		p := driver.NewParams(u)
		p.String("known", "")
		if err := p.Err(); err != nil {
			return nil, err
		}
		if _, err := driver.Hosts(u, "4242"); err != nil {
			return nil, err
		}
		return nothing{}, nil
	})
}

type nothing struct{ driver.Driver }

func (nothing) String() string { return "probe://" }

func TestOpenPassesHostsPathAndParametersToTheDriver(t *testing.T) {
	for raw, want := range map[string]string{
		"probe://h1:1,h2:2/ns?ttl=30s&known=x": "h1:1,h2:2|/ns|known=x",
		"probe://[::1]:2181,h2/a/b":            "[::1]:2181,h2|/a/b|",
		" probe://h1/ns?known=x\n":             "h1|/ns|known=x", // from a file
		"probe://u:p%40ss@h1,h2:7":             "h1,h2:7||",
	} {
		if _, err := coordinator.Open(raw); err != nil {
			t.Errorf("Open(%q): %v", raw, err)
			continue
		}
		if got := opened.Host + "|" + opened.Path + "|" + opened.RawQuery; got != want {
			t.Errorf("Open(%q) passed %q to the driver, want %q", raw, got, want)
		}
	}
	if pw, _ := opened.User.Password(); opened.User.Username() != "" && pw != "p@ss" {
		t.Errorf("the driver got user and password %v", opened.User)
	}
}

func TestOpenRefusesBadURLsWithoutShowingSecrets(t *testing.T) {
	for raw, rule := range map[string]string{
		"":                            "no scheme",
		"localhost:2379":              "no scheme",
		"redis://h:1":                 `no driver for URL scheme "redis"; want memory://…, probe://…; is the driver's package imported?`,
		"localhost":                   "want memory://…, probe://…",
		"http://h:2379":               `no driver for URL scheme "http"; want memory://…, probe://…; write etcd:// instead of http://`,
		"ftp://h":                     `no driver for URL scheme "ftp"; want memory://…, probe://…`,
		"probe://h?tll=10s":           `unknown URL parameter "tll" (known: identity, known, ttl)`,
		"probe://u:hunter2@h/%zz":     "cannot be parsed",
		"probe://u:hunter2@h:99999/":  "port",
		"probe://u:hunter2@":          "names no host",
		"probe://h/#frag":             "fragment",
		"probe://h?ttl=soon":          `"ttl" must be a positive duration`,
		"probe://h?ttl=-5s":           `"ttl" must be a positive duration`,
		"probe://h?ttl=1s&ttl=2s":     "more than once",
		"probe://h?ttl=10ms":          "ttl 10ms is not between 1s and 24h",
		"probe://h?identity=":         `"identity" must not be empty`,
		"probe://h?password=hunter2":  `unknown URL parameter "password"`,
		"probe://h?known=1;x=hunter2": "cannot be parsed",
		"my_user:hunter2@probe://h":   "no scheme",
		"hunter2_@probe://h":          "no scheme",
		"my_user:hunter2://h/x@y":     "no scheme",
	} {
		_, err := coordinator.Open(raw)
		if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("Open(%q) = %v, want ErrInvalid with %q", raw, err, rule)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open(%q) shows a secret: %v", raw, err)
		}
	}
}

func TestOptionsThatBreakARuleAreRefused(t *testing.T) {
	for rule, opt := range map[string]coordinator.Option{
		"nil option":        nil,
		"nil logger":        coordinator.WithLogger(nil),
		"nil observer":      coordinator.WithObserver(nil),
		"ttl 0s":            coordinator.WithTTL(0),
		"ttl -1s":           coordinator.WithTTL(-time.Second),
		"ttl 25h0m0s":       coordinator.WithTTL(25 * time.Hour),
		"identity \"\"":     coordinator.WithIdentity(""),
		"control character": coordinator.WithIdentity("a\nb"),
	} {
		_, err := coordinator.New(nothing{}, opt)
		if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("New = %v, want ErrInvalid with %q", err, rule)
		}
	}
	if _, err := coordinator.New(nil); !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("New(nil) = %v", err)
	}
}

func TestRegisterPanicsWhenASchemeIsTaken(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "probe") {
			t.Errorf("recovered %v", r)
		}
	}()
	coordinator.Register("probe", func(*url.URL) (driver.Driver, error) { return nothing{}, nil })
}
