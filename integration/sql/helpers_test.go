package sql_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
)

// ttl is the TTL of sessions that are to be lost. Other sessions survive delays
// of a busy machine.
const ttl = 4 * time.Second

var silent = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// ttlURL returns a client's URL, at an address that leads to the database.
func (db *database) ttlURL(addr string) string {
	u := db.URL(addr)
	if strings.Contains(u, "?") {
		return u + "&ttl=" + ttl.String()
	}
	return u + "?ttl=" + ttl.String()
}

func (db *database) client(t *testing.T) *coordinator.Client { return db.clientAt(t, db.Addr()) }

func (db *database) clientAt(t *testing.T, addr string) *coordinator.Client {
	return opened(t, db.URL(addr), coordinator.WithTTL(30*time.Second))
}

// shortClient has the TTL ttl.
func (db *database) shortClient(t *testing.T, addr string) *coordinator.Client {
	return opened(t, db.ttlURL(addr))
}

func opened(t *testing.T, url string, options ...coordinator.Option) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open(url, append(options, silent)...)
	ok(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

// soon returns a context for calls that must return.
func soon(t *testing.T) context.Context { return await.Context(t) }

// left counts the entries at the database.
func (db *database) left(t *testing.T) (n int) {
	t.Helper()
	ok(t, db.pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM baton_entries").Scan(&n))
	return n
}

// meter counts the statements of clients, by what they do.
type meter struct {
	mu     sync.Mutex
	counts map[string]int
	seen   map[string]bool // texts, after their kind
	began  time.Time
}

// texts counts the different statements of a kind.
func (m *meter) texts(kind string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for text := range m.seen {
		if strings.HasPrefix(text, kind+" ") {
			n++
		}
	}
	return n
}

// metered starts a proxy whose clients' statements are counted.
func (db *database) metered(t *testing.T) (*meter, *netproxy.Proxy) {
	m := &meter{}
	m.reset()
	return m, servers.Proxy(t, []string{db.Addr()}, netproxy.WithSniffer(func() netproxy.Sniffer {
		return &sniffer{meter: m, mysql: db.dialect == batonsql.MySQL, prepared: map[string]string{}}
	}))
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts, m.seen, m.began = map[string]int{}, map[string]bool{}, time.Now()
}

// get returns the counts since the last reset.
func (m *meter) get() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for k, n := range m.counts {
		counts[k] = n
	}
	return counts
}

// kinds of statements, by a text in them.
var statement = regexp.MustCompile(`baton_(join|leave|renew|end|open|set_record)\(|UNION ALL|LISTEN|baton_notify|` +
	`(?i)set |transaction_read_only|deallocate|version|-- ping`)

func (m *meter) count(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind := statement.FindString(text)
	switch kind {
	case "":
		kind = strings.ToValidUTF8(text, "?")
	case "UNION ALL": // of a queue: by a contender, or for all that wait
		kind = "read"
	default:
		kind = strings.TrimSuffix(strings.TrimPrefix(kind, "baton_"), "(")
	}
	m.counts[kind]++
	m.seen[kind+" "+text] = true
}

// sniffer finds the statements in what a client sends.
type sniffer struct {
	*meter
	mysql, begun bool
	prepared     map[string]string // the texts of PostgreSQL's statements, by name
	rest         []byte
}

func (s *sniffer) Sniff(way netproxy.Direction, b []byte) []netproxy.Message {
	if way == netproxy.Up {
		s.rest = append(s.rest, b...)
		for s.next() {
		}
	}
	return nil
}

// next takes one message of the protocol.
func (s *sniffer) next() bool {
	head := 5 // a kind and the length of PostgreSQL, which includes itself
	if s.mysql || !s.begun {
		head = 4
	}
	if len(s.rest) < head {
		return false
	}
	size := head - 4 + int(binary.BigEndian.Uint32(s.rest[head-4:]))
	if s.mysql { // three bytes of length, and a sequence number
		size = head + (int(s.rest[0]) | int(s.rest[1])<<8 | int(s.rest[2])<<16)
	}
	if len(s.rest) < size {
		return false
	}
	message := s.rest[:size]
	switch {
	case s.mysql && message[3] == 0 && len(message) > 4 && message[4] == 3, // a query
		!s.mysql && s.begun && message[0] == 'Q':
		s.count(string(message))
	case !s.mysql && s.begun && message[0] == 'P': // prepares a statement: name, text
		name, text, _ := strings.Cut(string(message[head:]), "\x00")
		s.prepared[name] = text
	case !s.mysql && s.begun && message[0] == 'B': // executes it: portal, name
		s.count(s.prepared[strings.Split(string(message[head:]), "\x00")[1]])
	}
	s.begun, s.rest = true, s.rest[size:]
	return true
}

func contains(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v; want %q in it", err, text)
	}
}
