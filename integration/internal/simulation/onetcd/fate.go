package onetcd

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// arrives decides about a request that has arrived at a member.
func (s *service) arrives(r virtualetcd.Request) virtualetcd.Fate {
	a := ask(r.Message)
	if a.op == "" {
		return virtualetcd.Fate{}
	}
	s.mu.Lock()
	l, decide, quiet := s.links[r.Link], s.decide, s.quiet
	of := s.calls[tagOf(r.Context)]
	s.mu.Unlock()
	if l == nil || decide == nil {
		return virtualetcd.Fate{}
	}
	m := simulation.Message{
		Link: l, Op: a.op, Session: a.session, ID: a.id, Queue: driver.Queue(a.queue), Context: of.ctx,
	}
	if of.ctx == nil {
		m.Context = context.Background()
	}
	if m.Session == "" {
		m.Session = of.session
	}
	f := decide(m)
	if quiet {
		return virtualetcd.Fate{}
	}
	return virtualetcd.Fate{
		DelayRequest: f.DelayRequest, DelayReply: f.DelayReply,
		DropRequest: f.DropRequest, DropReply: f.DropReply, Err: refusal(f, r, a, of),
	}
}

// tagOf is the tag of a request, or empty.
func tagOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if tags := md.Get(tag); len(tags) > 0 {
		return tags[0]
	}
	return ""
}

// refusal is the error of a fate. A refusal is an answer to one caller, who
// must be known: other requests are answered that there is no leader.
func refusal(f memory.Fate, r virtualetcd.Request, a asked, of call) error {
	_, watch := r.Message.(*pb.WatchCreateRequest)
	switch {
	case f.Err == nil:
		return nil
	case errors.Is(f.Err, driver.ErrRefused) && !watch && (a.contenders == 1 || of.ctx != nil):
		return virtualetcd.Refused
	}
	return virtualetcd.NoLeader
}
