package etcd

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// living is a condition of what only a session that is not over may write, late or not (C1). It is not
// needed where an entry of the session is compared, which goes before the sentinel or with it.
func (s *session) living() clientv3.Cmp { return s.sentinel.stands() }

// readSentinel is for the else branch of a transaction with that condition, or for itself, and judgeSentinel
// takes what it has read: the session is over if the condition did not hold. The lease is gone then, and the entries with it. If
// somebody deleted only the sentinel, the session is unusable all the same, and Close revokes the lease.
func (s *session) readSentinel() clientv3.Op {
	return clientv3.OpGet(s.sentinel.key, clientv3.WithKeysOnly())
}

func (s *session) judgeSentinel(read []*mvccpb.KeyValue) error {
	if s.sentinel.in(read) {
		return nil
	}
	s.end()
	return driver.ErrSessionLost
}

// raiseEpoch gives the sentinel a new mod revision. Its create revision is compared first, lest a
// request that is late makes a new sentinel after the session's end.
func (s *session) raiseEpoch() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{s.living()},
		[]clientv3.Op{clientv3.OpPut(s.sentinel.key, "", clientv3.WithLease(s.lease))},
		nil)
}
