package zkserver

import (
	"context"
	"net"
	"reflect"
	"testing"
	"time"
)

func TestStatusIsReadFromEveryRelease(t *testing.T) {
	for answer, want := range map[string]Status{
		"Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nConnections: 2\n" +
			"Zxid: 0x100000002\nMode: standalone\nNode count: 6\n": {
			Version: "3.8.0", Mode: "standalone", Zxid: 1<<32 + 2, Connections: 2, Nodes: 6,
		},
		"Zookeeper version: 3.9.3, built on 2024\nMode: follower\n": {Version: "3.9.3", Mode: "follower"},
		"Zookeeper version: 3.10.0\n":                               {Version: "3.10.0"},
		"":                                                          {},
	} {
		if got := parseStatus(answer); got != want {
			t.Errorf("%q: %+v, want %+v", answer, got, want)
		}
	}
}

func TestDumpIsReadBySession(t *testing.T) {
	got := parseDump(`SessionTracker dump:
Session Sets (2)/(2):
1 expire at Sat Nov 21 10:22:52 UTC 2026:
	0x10000256f330000
1 expire at Sat Nov 21 10:22:53 UTC 2026:
	0xf0000256f330001
ephemeral nodes dump:
Sessions with Ephemerals (1):
0xf0000256f330001:
	/a
	/a/b c
Connections dump:
Connections Sets (1)/(1):
1 expire at Sat Nov 21 10:22:55 UTC 2026:
	ip: /127.0.0.1:45194 sessionId: 0x10000256f330000
`)
	const high = 0xf0000256f330001
	want := Dump{
		Sessions:   []int64{0x10000256f330000, high},
		Ephemerals: map[int64][]string{high: {"/a", "/a/b c"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if id, ok := sessionID("0xffffffffffffffff"); !ok || id != -1 {
		t.Errorf("sessionID: %d, %v", id, ok)
	}
	watches := bySession("0x10000256f330000\n\t/a\n\t/b\n\n")
	if want := map[int64][]string{0x10000256f330000: {"/a", "/b"}}; !reflect.DeepEqual(watches, want) {
		t.Errorf("watches %v, want %v", watches, want)
	}
}

// The server closes the connection, then does not answer, then answers. The
// retries end with the caller's context.
func TestWordRetriesUntilAnAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for answers := 0; ; answers++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			switch answers {
			case 0:
			case 1:
				defer c.Close()
				continue
			case 2:
				_, _ = c.Read(make([]byte, 4))
				_, _ = c.Write([]byte("zk_watch_count\t7\n"))
			}
			_ = c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if m, err := Monitor(ctx, ln.Addr().String()); err != nil || m["watch_count"] != 7 {
		t.Errorf("got %v, %v", m, err)
	}
	_ = ln.Close()
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Word(brief, ln.Addr().String(), "mntr"); err == nil {
		t.Error("a server that has ended answers")
	}
}
