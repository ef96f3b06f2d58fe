package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// silentServer answers all scripts by success, but the joins not at all. joins
// counts those that have arrived.
func silentServer(t *testing.T) (addr string, joins *atomic.Int64) {
	joins = new(atomic.Int64)
	return server(t, func(script string) string {
		if script == scripts["join"+anyRecord].hash {
			joins.Add(1)
			return ""
		}
		return "*1\r\n$2\r\nok\r\n"
	}), joins
}

// server answers scripts, by their hashes, with what answer returns.
func server(t *testing.T, answer func(script string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					args, err := command(in)
					if err != nil {
						return
					}
					reply := "+OK\r\n"
					switch args[0] {
					case "hello":
						reply = "-ERR unknown command\r\n"
					case "evalsha":
						reply = answer(args[1])
					}
					if _, err := io.WriteString(conn, reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// command reads a command as clients send it: an array of strings.
func command(in *bufio.Reader) (args []string, err error) {
	number := func() int {
		line, e := in.ReadString('\n')
		if err = e; err != nil || len(line) < 3 {
			return 0
		}
		n, _ := strconv.Atoi(line[1 : len(line)-2])
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		text := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(in, text)
		}
		args = append(args, strings.ToLower(string(text[:len(text)-2])))
	}
	return args, err
}

// TestRenewalWaitsForNoOtherRequest: as many joins as there are connections
// have no answer yet, over a slow network or on a busy server. The session and
// all its holds must not end by that.
func TestRenewalWaitsForNoOtherRequest(t *testing.T) {
	addr, joins := silentServer(t)
	d, err := Open(target(t, addr, "/a?timeout=1m"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer func() { _ = d.Close(context.Background()) }()
	defer cancel()
	s, err := d.Open(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pool := 10 * runtime.GOMAXPROCS(0) // of go-redis
	for i := range 2 * pool {
		go func() {
			_, _ = s.Join(ctx, driver.NewQueue("mutex", fmt.Sprint(i)), driver.Contender{ID: fmt.Sprintf("%016x", i), Mode: "x"})
		}()
	}
	for joins.Load() < int64(pool) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d joins have arrived, want %d", joins.Load(), pool)
		}
	}
	if err := s.Renew(ctx); err != nil {
		t.Errorf("a renewal beside %d joins: %v", joins.Load(), err)
	}
}

// TestReplyOfNoScriptIsAnError: what answers may not be Redis. Neither may it
// crash the client, nor is an unknown status a success.
func TestReplyOfNoScriptIsAnError(t *testing.T) {
	for _, reply := range []string{"*0\r\n", "*1\r\n$2\r\nok\r\n", "*1\r\n$4\r\ngone\r\n", "*4\r\n$5\r\nother\r\n$1\r\n7\r\n$1\r\n1\r\n$0\r\n\r\n"} {
		opened := false
		d, err := Open(target(t, server(t, func(script string) string {
			if script == scripts["open"].hash && !opened {
				opened = true
				return "*1\r\n$2\r\nok\r\n"
			}
			return reply
		}), "/a"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := d.Open(ctx, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		queue, place := driver.NewQueue("mutex", "a"), driver.Place{Key: "7", ID: "0123456789abcdef"}
		_, join := s.Join(ctx, queue, driver.Contender{ID: place.ID, Mode: "x"})
		_, join2 := s.Join(ctx, queue, driver.Contender{ID: place.ID, Mode: "x", Record: 1})
		_, ahead := s.Ahead(ctx, queue, place)
		_, record := s.Record(ctx, queue, driver.Any)
		_, write := s.SetRecord(ctx, queue, []byte("x"), 1)
		watch := s.Watch(ctx, queue, place)
		for i, err := range []error{join, join2, ahead, record, write, watch} {
			if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrGone) {
				t.Errorf("request %d with the reply %q: %v", i, reply, err)
			}
		}
		cancel()
		_ = d.Close(context.Background())
	}
}
