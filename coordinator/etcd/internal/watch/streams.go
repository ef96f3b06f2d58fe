package watch

import (
	"strconv"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// requireLeader is the metadata with which a member refuses a request or a
// stream while it knows no leader.
var requireLeader = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)

// Streams chooses the gRPC stream that a client's watches share. They leave it
// together, for two reasons:
//
// A stream keeps the auth token with which it was opened, or has none if
// authentication was off, while tokens expire and change with the roles. The
// server checks the token for every new watch, so on an old stream each of them
// would be refused until the last watch there ends, and the watch on a
// session's sentinel never does.
//
// A stream stays with its member for as long as their connection lives, even if
// the member applies nothing any more: see Refresh.
type Streams struct {
	mu   sync.Mutex
	now  *stream // nil before the first watch
	last int64   // the newest stream, also of those that were tried only
}

// stream is a gRPC stream of clientv3. The client opens it with the first watch
// that has its metadata, on the next member in turn, and closes it with the
// last.
type stream struct {
	gen  int64
	md   metadata.MD   // shared: a copy is a good part of a watch's memory
	left chan struct{} // closed when the watches move to another stream
	// proven is the newest revision up to which a Refresh has found that the
	// stream's member shows events.
	proven atomic.Int64
	// asked is how many watches the member has not said to exist. If it never
	// says so of one, the client does not ask it for those behind.
	asked atomic.Int32
}

func newStream(gen int64) *stream {
	md := requireLeader
	if gen > 0 {
		md = requireLeader.Copy()
		md.Set("baton-stream", strconv.FormatInt(gen, 10))
	}
	return &stream{gen: gen, md: md, left: make(chan struct{})}
}

// next returns another stream. Other metadata make another one. It was never
// used before: one that was tried in vain may still be open, since a watch
// whose member is silent cannot be cancelled (see open), and leads to that
// member.
func (all *Streams) next() *stream {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.last++
	return newStream(all.last)
}

// current returns the stream to use.
func (all *Streams) current() *stream {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.now == nil {
		all.now = newStream(0)
	}
	return all.now
}

// replace moves all watches from one stream to another. Of all callers that
// found the same stream unusable only the first moves them.
func (all *Streams) replace(from, to *stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.now == from {
		all.now = to
		close(from.left)
	}
}

// unauthenticated reports whether a watch was refused because its stream has no
// valid token. Without a user the client cannot get one.
func (w *Watcher) unauthenticated(err error) bool {
	return answer.Is(err, rpctypes.ErrInvalidAuthToken) ||
		answer.Is(err, rpctypes.ErrAuthOldRevision) ||
		w.User && answer.Is(err, rpctypes.ErrUserEmpty)
}
