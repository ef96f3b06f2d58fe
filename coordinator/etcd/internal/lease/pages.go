package lease

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// A listing of a queue is read in pages, all at the revision of the first: an
// entry that is converted meanwhile is in it once. One reply with everything
// would need several times its size of memory, and would delay the session's
// renewals, which share its connection.
const (
	firstPage = 128     // keys with values: most queues have fewer
	mostKeys  = 4096    // of a page
	pageBytes = 4 << 20 // of a page, judged by the one before

	// MaxReply is the largest reply to a request that a driver's own client
	// accepts. The keys of four hundred thousand contenders have so much.
	MaxReply = 64 << 20

	// maxValue is the largest value that Baton gives an entry. An entry of
	// another program with a larger one is listed without it.
	maxValue = 64 << 10
)

// All reads all keys of a queue by quorum, with or without their values.
func (s *Session) All(ctx context.Context, queue driver.Queue, values bool) (Reading, error) {
	begin := s.layout.Queue(queue)
	end := clientv3.GetPrefixRangeEnd(begin)
	var list Reading
	from, page := begin, firstPage
	if !values {
		page = mostKeys
	}
	for {
		get := clientv3.OpGet(from, clientv3.WithRange(end),
			clientv3.WithLimit(int64(page)), clientv3.WithRev(list.Rev))
		if !values {
			clientv3.WithKeysOnly()(&get)
		}
		r, err := s.Get(ctx, get)
		switch {
		case tooLarge(err) && page > 1:
			page = max(page/8, 1)
			continue
		case answer.Is(err, rpctypes.ErrCompacted): // the list's revision: begin again
			list, from = Reading{}, begin
			continue
		case err != nil:
			return Reading{}, err
		case list.Rev == 0:
			list.Rev, list.Count = r.Rev, r.Count
		}
		size := 0
		for _, kv := range r.Kvs {
			size += len(kv.Key) + len(kv.Value)
			if len(kv.Value) > maxValue {
				kv.Value = nil
			}
		}
		list.Kvs = append(list.Kvs, r.Kvs...)
		if r.Count <= int64(len(r.Kvs)) {
			return list, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
		page = min(max(int(int64(pageBytes)*int64(len(r.Kvs))/int64(size)), 1), mostKeys)
	}
}

// tooLarge reports whether the client did not accept a reply for its size.
func tooLarge(err error) bool {
	return err != nil && answer.Code(err) == codes.ResourceExhausted &&
		strings.Contains(err.Error(), "message larger than max")
}
