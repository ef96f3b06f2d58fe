package etcd

import (
	"context"
	"strconv"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// watchContext is the context of a watch: it ends with the session, and when the watch is given up.
//
// The client puts all watches whose contexts have the same outgoing metadata on
// one stream, which keeps the values of the context that came first. So it
// is derived from the session and has nothing of the caller's, neither metadata nor a trace.
func (s *session) watchContext(md metadata.MD) (context.Context, context.CancelFunc) {
	return context.WithCancel(metadata.NewOutgoingContext(s.life, md))
}

// streams chooses the gRPC stream that a client's watches share.
//
// A stream has the auth token with which it was opened, for ever, while tokens expire and
// change with the roles. The server checks it for every new watch, so on an old
// stream each of them would be refused until the last watch there ends, and
// a session's own watch never does. Other metadata make another stream.
type streams struct {
	gen atomic.Int64
}

const streamKey = "baton-stream"

func (st *streams) current() metadata.MD {
	gen := st.gen.Load()
	if gen == 0 {
		return requireLeader // one for all: a copy would be a good part of what a watch takes
	}
	md := requireLeader.Copy()
	md.Set(streamKey, strconv.FormatInt(gen, 10))
	return md
}

// failed moves on from a stream whose token is refused. Of all that fail
// on one stream only the first moves on.
func (st *streams) failed(md metadata.MD, err error) {
	if !isAnswer(err, rpctypes.ErrInvalidAuthToken) && !isAnswer(err, rpctypes.ErrAuthOldRevision) {
		return
	}
	var gen int64
	if v := md.Get(streamKey); len(v) > 0 {
		gen, _ = strconv.ParseInt(v[0], 10, 64)
	}
	st.gen.CompareAndSwap(gen, gen+1)
}
