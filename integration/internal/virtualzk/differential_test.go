package virtualzk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/virtualzk"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

func TestMain(m *testing.M) { servers.Main(m) }

// TestSameAnswersAsZooKeeper sends the same random requests to a real server
// and to this one: sessions that begin, continue and end, all kinds of nodes,
// transactions, watches, credentials and permissions, and requests that fail.
// Replies, notices and ended connections are the same, with the distances of
// their zxids. The order of the names of children, and of the notices that a
// session's end causes, is not: ZooKeeper's depends on hashes.
//
// BATON_TESTS=all makes 10,000 requests of 500.
func TestSameAnswersAsZooKeeper(t *testing.T) {
	runs := 1
	if os.Getenv("BATON_TESTS") == "all" {
		runs = 20
	}
	cluster := servers.NewZooKeeper(t, zkserver.Options{
		JVM: []string{"-Dznode.container.checkIntervalMs=1000000000"},
	})
	began := time.Now()
	for seed := range uint64(runs) {
		compare(t, cluster.Endpoints()[0], seed, 500)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d requests in %v", 500*runs, time.Since(began).Round(time.Millisecond))
}

// compare runs a seed. What the clients have seen determines later requests, so
// it stops at the first difference.
func compare(t *testing.T, addr string, seed uint64, requests int) {
	t.Helper()
	e := virtualzk.New(virtualzk.Config{
		Tick: 200 * time.Millisecond, MinTimeout: 500 * time.Millisecond, MaxTimeout: 40 * time.Second,
		Containers: 24 * time.Hour,
	})
	defer e.Close()
	link := e.Link("differential")
	dial := func(conn net.Conn, err error) net.Conn {
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	sides := []*side{
		{t: t, numbers: map[int64]int{}, dial: func() net.Conn { return dial(net.Dial("tcp", addr)) }},
		{t: t, numbers: map[int64]int{}, dial: func() net.Conn {
			return dial(link.Dial(context.Background(), "10.0.0.1:2181"))
		}},
	}
	r := rand.New(rand.NewPCG(seed, 0xd1ff))
	g := &generator{Rand: r, root: fmt.Sprintf("/seed%d", seed)}
	for range 4 {
		for _, sd := range sides {
			sd.clients = append(sd.clients, &raw{ended: true})
		}
	}
	defer func() {
		for _, sd := range sides {
			for _, c := range sd.clients {
				if !c.ended {
					sd.call(c, closeSession, nil)
					_ = c.Close()
				}
			}
		}
	}()
	var history []string
	for n := range requests {
		step := g.next(n)
		var got [2]string
		for i, sd := range sides {
			got[i] = step.run(sd)
			notices := sd.notices()
			if step.closes {
				slices.Sort(notices)
			}
			got[i] += "\n\t" + strings.Join(notices, "\n\t")
		}
		history = append(history, fmt.Sprintf("%d: %s\n\t%s", n, step.what, got[0]))
		if got[0] != got[1] {
			t.Errorf("seed %d, request %d: %s\nZooKeeper: %s\nvirtual:   %s\nbefore:\n%s", seed, n, step.what, got[0], got[1],
				strings.Join(append(history[:min(5, len(history))], history[max(0, len(history)-12):]...), "\n"))
			return
		}
		g.learn(got[0])
	}
}

// generator makes random requests on few paths.
type generator struct {
	*rand.Rand
	root  string
	known []string // paths that the service has made
}

// step is one request to both sides.
type step struct {
	what   string
	closes bool // a session
	run    func(sd *side) string
}

// learn notes a path that a create has returned.
func (g *generator) learn(reply string) {
	if i := strings.Index(reply, g.root+"/"); i >= 0 && strings.Contains(reply, "code 0") {
		path := strings.FieldsFunc(reply[i:], func(r rune) bool { return r == ' ' || r == '\n' || r == ';' })[0]
		if g.known = append(g.known, path); len(g.known) > 12 {
			g.known = g.known[1:]
		}
	}
}

func (g *generator) path() string {
	if len(g.known) > 0 && g.IntN(3) == 0 {
		return g.known[g.IntN(len(g.known))]
	}
	path := g.root
	for range g.IntN(4) {
		path += "/" + string(rune('a'+g.IntN(3)))
	}
	if g.IntN(100) == 0 {
		path += []string{"/", "//a", "/..", "/.", "/\x00"}[g.IntN(5)]
	}
	return path
}

func (g *generator) data() []byte { return make([]byte, g.IntN(5)) }

// version is seldom right, and often any.
func (g *generator) version() int32 { return int32(max(-1, g.IntN(8)-5)) }

// acl is the list of permissions of a new node.
func (g *generator) acl(b encoder) encoder {
	switch g.IntN(20) {
	case 0:
		return b.number(1).number(1).text("world").text("anyone") // read only
	case 1:
		return b.number(1).number(31).text("auth").text("")
	case 2:
		return b.number(0)
	case 3:
		return b.number(1).number(31).text("nonsense").text("x")
	case 4:
		return b.number(2).number(31).text("auth").text("").number(1).text("world").text("anyone")
	}
	return b.number(1).number(31).text("world").text("anyone")
}

func (g *generator) create(op int32) (body encoder, what string) {
	flags := int32(g.IntN(4))
	if op == createContainer {
		flags = 4
	}
	path := g.path()
	if flags == 2 || flags == 3 {
		path += "/s-"
	}
	b := encoder{}.text(path)
	b = append(b.number(int32(2)), g.bytes(2)...)
	return g.acl(b).number(flags), fmt.Sprintf("create %s with %d", path, flags)
}

func (g *generator) bytes(n int) (b []byte) {
	for range n {
		b = append(b, byte('a'+g.IntN(26)))
	}
	return b
}

// write makes an operation that can be a part of a transaction.
func (g *generator) write() (op int32, body encoder, what string) {
	path := g.path()
	switch g.IntN(8) {
	case 0, 1, 2:
		body, what = g.create(create)
		return create, body, what
	case 3:
		body, what = g.create(create2)
		return create2, body, "create2: " + what
	case 4, 5:
		version := g.version()
		return remove, encoder{}.text(path).number(version), fmt.Sprintf("delete %s of %d", path, version)
	case 6:
		version, data := g.version(), g.data()
		b := append(encoder{}.text(path).number(int32(len(data))), data...)
		return setData, b.number(version), fmt.Sprintf("set %s of %d", path, version)
	}
	version := g.version()
	return check, encoder{}.text(path).number(version), fmt.Sprintf("check %s of %d", path, version)
}

// next makes a request of a random client.
func (g *generator) next(n int) step {
	i := g.IntN(4)
	by := func(what string, op int32, body []byte) step {
		return step{
			what: fmt.Sprintf("client %d: %s", i, what), closes: op == closeSession,
			run: func(sd *side) string {
				if sd.clients[i].ended {
					return sd.connects(sd.clients[i])
				}
				return sd.call(sd.clients[i], op, body)
			},
		}
	}
	switch {
	case n < 4:
		return g.connects(n, n == 0)
	case n == 4:
		i = 0
		b := encoder{}.text(g.root).number(-1)
		return by("create the root", create, b.number(1).number(31).text("world").text("anyone").number(0))
	}
	switch g.IntN(22) {
	case 0, 1, 2, 3, 4, 5:
		op, body, what := g.write()
		if op == check { // no client sends it alone
			return by("sync", syncs, encoder{}.text(g.path()))
		}
		return by(what, op, body)
	case 6:
		body, what := g.create(createContainer)
		return by("container: "+what, createContainer, body)
	case 7, 8, 9:
		return g.multi(by)
	case 10, 11, 12, 13, 14, 15:
		return g.read(by)
	case 16:
		return g.reconnects(i)
	case 17:
		if g.IntN(3) > 0 {
			return by("ping", ping, nil)
		}
		return by("close the session", closeSession, nil)
	case 18:
		user := string(rune('a'+g.IntN(2))) + ":pw"
		return by("credentials "+user, auth, encoder{}.number(0).text("digest").text(user))
	case 19:
		if g.IntN(8) > 0 {
			return g.connects(i, false)
		}
		return by("unknown request", 77, encoder{}.text("/a"))
	}
	return g.connects(i, false)
}

func (g *generator) multi(by func(string, int32, []byte) step) step {
	var body encoder
	var all []string
	for range 1 + g.IntN(4) {
		op, b, what := g.write()
		body = append(body.number(op).flag(false).number(-1), b...)
		all = append(all, what)
	}
	return by("transaction: "+strings.Join(all, ", "), multi, body.number(-1).flag(true).number(-1))
}

func (g *generator) read(by func(string, int32, []byte) step) step {
	path, watch := g.path(), g.IntN(2) == 0
	op := []int32{exists, getData, getChildren, getChildren2}[g.IntN(4)]
	return by(fmt.Sprintf("read %d of %s, watch %v", op, path, watch), op, encoder{}.text(path).flag(watch))
}

// connects connects a client that has no connection.
func (g *generator) connects(i int, first bool) step {
	return step{what: fmt.Sprintf("client %d connects", i), run: func(sd *side) string {
		c := sd.clients[i]
		if !c.ended {
			return "connected"
		}
		words := sd.connects(c)
		if first {
			sd.call(c, ping, nil)
			sd.base = c.last
		}
		return words
	}}
}

// connects connects with the client's session, or with a new one if that is
// over.
func (sd *side) connects(c *raw) string {
	words := sd.connect(c)
	if words == "session over" {
		c.session, c.password, c.last = 0, nil, 0
		words += ", " + sd.connect(c)
	}
	return words
}

// reconnects breaks a client's connection, connects again with the session, and
// sets watches since a transaction seen before.
func (g *generator) reconnects(i int) step {
	back := int64(g.IntN(20))
	b := encoder{}.texts(g.path(), g.path()).texts(g.path(), g.path()).texts(g.path(), g.path())
	wrong := g.IntN(10) == 0
	return step{what: fmt.Sprintf("client %d reconnects, wrong password %v, watches since %d before", i, wrong, back),
		run: func(sd *side) string {
			c := sd.clients[i]
			if c.ended {
				return sd.connects(c)
			}
			_ = c.Close()
			password := c.password
			if wrong {
				c.password = make([]byte, 16)
			}
			words := sd.connect(c)
			if c.password = password; c.ended {
				return words
			}
			return words + ", " + sd.call(c, setWatches, append(encoder{}.long(c.last-back), b...))
		}}
}
