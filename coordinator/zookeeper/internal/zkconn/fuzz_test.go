package zkconn

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// FuzzHandshake parses replies of servers that are no ZooKeeper.
func FuzzHandshake(f *testing.F) {
	good := append([]byte{0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0x27, 0x10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 16}, make([]byte, 17)...)
	for _, b := range [][]byte{nil, good, good[:20], {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0}, []byte("HTTP/1.1 400 Bad Request\r\n\r\n")} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMessage(bufio.NewReader(bytes.NewReader(b)), nil, maxHandshake)
		if err != nil {
			return
		}
		if len(m) < 4 || len(m) > 4+maxHandshake || !bytes.HasPrefix(b, m) {
			t.Fatalf("%x: a message of %d bytes", b, len(m))
		}
		h, err := parseHello(m)
		if err != nil {
			return
		}
		if len(h.passwd) > len(m) || h.timeout < math.MinInt32*time.Millisecond || h.timeout > math.MaxInt32*time.Millisecond {
			t.Errorf("%x: %+v", b, h)
		}
		// The request to continue the session has the same content.
		again := h.appendConnect([]byte("before"))
		if !bytes.HasSuffix(again, h.passwd) || len(again) != len("before")+4+4+8+4+8+4+len(h.passwd) {
			t.Errorf("%+v is continued with %x", h, again)
		}
	})
}

// FuzzCode parses the code in an error's text; the library shows it nowhere
// else.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"unknown error: -125", "unknown error: x", "unknown error: ", "zk: -1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n := code(fmt.Errorf("%s", s)); n != 0 && !strings.Contains(s, "unknown error: ") { //nolint:err113 // any text
			t.Errorf("%q: %d", s, n)
		}
	})
}
