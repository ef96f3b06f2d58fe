package onetcd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file reads what the driver stores, as its documents say, with none of
// its code.

const (
	namespace = "world"
	base      = namespace + "/./"
	sessions  = base + "sessions/"
)

// named is what the key of an entry says.
type named struct {
	queue             driver.Queue
	session, id, mode string
	rank              int64 // of a converted entry
	marker            bool
}

// parse reads a key below a queue. An entry of another program has a queue
// alone.
func parse(key string) (n named, ok bool) {
	rest, below := strings.CutPrefix(key, base)
	parts := strings.SplitN(rest, "/", 3)
	if !below || len(parts) < 3 {
		return n, false
	}
	n.queue = driver.Queue(parts[0] + "/" + parts[1])
	name, converted := strings.CutPrefix(parts[2], "+")
	name, n.marker = strings.CutSuffix(name, "~")
	fields, want := strings.Split(name, "-"), 3
	if converted {
		want = 4
	}
	if len(fields) != want || len(fields[0]) != 16 {
		return named{queue: n.queue}, true
	}
	n.session, n.id, n.mode = fields[0], fields[1], fields[2]
	if converted {
		n.rank, _ = strconv.ParseInt(fields[3], 16, 64)
	}
	return n, true
}

// recordOf is the queue of a record's key.
func recordOf(key string) (driver.Queue, bool) {
	name, is := strings.CutSuffix(key, "+record")
	queue, below := strings.CutPrefix(name, base)
	return driver.Queue(queue), is && below
}

// entry is the entry of a key that is no marker.
func (n named) entry(kv *mvccpb.KeyValue) driver.Entry {
	return driver.Entry{
		Place: driver.Place{
			Key: fmt.Sprintf("%s@%d", kv.Key, kv.CreateRevision), ID: n.id, Mode: n.mode, Session: n.session,
		},
		Token: driver.Token(cmp.Or(n.rank, kv.CreateRevision)), Value: kv.Value,
	}
}

// record is the record of a key, which may be nil.
func record(kv *mvccpb.KeyValue) driver.Record {
	if kv == nil {
		return driver.Record{}
	}
	return driver.Record{Value: kv.Value, Version: driver.Version(kv.ModRevision)}
}

func inOrder(entries []driver.Entry) []driver.Entry {
	slices.SortFunc(entries, func(a, b driver.Entry) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
	})
	return entries
}
