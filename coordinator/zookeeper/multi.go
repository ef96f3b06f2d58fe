package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// outcome is what the reply to a transaction says.
type outcome struct {
	failed int       // which request has failed, counted from 1; 0 if the reply does not say
	made   [2]string // the first nodes that were made
	stat   zk.Stat   // of the last node that was written to
}

var errTransaction = errors.New("zookeeper: unexpected reply to a transaction")

// multi sends a transaction, as a part of a flight: Forget waits until it has
// landed, whether or not its caller still does. So the requests may outlive
// the call, and must not share memory with its arguments.
func (s *session) multi(ctx context.Context, f *flight, requests []any) (outcome, error) {
	f.extend()
	r, err := start(ctx, s, s.slots, func() ([]zk.MultiResponse, error) {
		defer f.end()
		return s.conn.Multi(requests...)
	})
	if err != nil {
		f.end()
		return outcome{}, err
	}
	results, err := await(ctx, s, r)
	if err == nil && len(results) != len(requests) {
		return outcome{}, driver.Wrap(driver.ErrUnavailable, errTransaction)
	}
	return outcomeOf(results), err
}

// outcomeOf reads the reply. The requests before one that has failed have no
// error, since they would have succeeded; those after it have one that says
// that they were not tried.
func outcomeOf(results []zk.MultiResponse) (o outcome) {
	made := o.made[:0]
	for i, r := range results {
		if r.Error != nil && o.failed == 0 {
			o.failed = i + 1
		}
		if r.Stat != nil {
			o.stat = *r.Stat
		}
		if r.String != "" && len(made) < len(o.made) {
			made = append(made, r.String)
		}
	}
	copy(o.made[:], made)
	return o
}

// creating is the request to make a node with a copy of the value.
func (s *session) creating(node string, value []byte, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: node, Data: append([]byte(nil), value...), Acl: s.acl, Flags: flags}
}

func deleting(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }

// remove deletes a node.
func (s *session) remove(ctx context.Context, node string) error {
	_, err := call(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(node, -1) })
	return err
}
