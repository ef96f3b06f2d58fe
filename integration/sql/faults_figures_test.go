package sql_test

import (
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/mutex"
)

func TestKilledHolderIsSucceeded(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		w := proc.Start(t, "sqlholder", db.ttlURL(db.Addr()), "killed")
		var first report
		w.Recv(&first)
		m, err := mutex.New(db.client(t), "killed")
		ok(t, err)
		w.Kill()
		began := time.Now()
		l, err := m.Lock(soon(t))
		ok(t, err)
		if l.Token() <= first.Token {
			t.Errorf("token %d after %d", l.Token(), first.Token)
		}
		if waited := time.Since(began); waited < ttl/4 {
			t.Errorf("the session of a killed holder ended after %v; the TTL is %v", waited, ttl)
		}
		ok(t, l.Unlock(soon(t)))
	})
}
