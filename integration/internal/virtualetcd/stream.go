package virtualetcd

import (
	"context"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// stream is the interceptor of keep-alives and watches.
func (m *Member) stream(
	srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	base := &memberStream{ServerStream: s, member: m, conn: connOf(s.Context()), life: m.alive()}
	switch info.FullMethod {
	case pb.Lease_LeaseKeepAlive_FullMethodName:
		return handle(srv, &keepStream{memberStream: base})
	case pb.Watch_Watch_FullMethodName:
		w := &watchStream{memberStream: base, sending: make(chan struct{}, 1), live: map[int64]Watch{}}
		m.watched(w, true)
		defer m.watched(w, false)
		return handle(srv, w)
	}
	return handle(srv, base)
}

// memberStream is a stream at a member.
type memberStream struct {
	grpc.ServerStream
	member *Member
	conn   *conn
	life   context.Context
}

// arrives decides about a message that has arrived. It returns the condition in
// which the member handles it.
func (s *memberStream) arrives(msg any) (state, Fate, error) {
	f := s.member.etcd.fate(Request{s.conn.link, s.member, msg, s.Context()})
	if _, err := s.member.arrive(s.Context(), f, s.conn); err != nil {
		return state{}, f, err
	}
	now := s.member.at()
	for now.Condition == Mute {
		if err := now.await(s.Context(), s.life); err != nil {
			return now, f, err
		}
		now = s.member.at()
	}
	return now, f, nil
}

// keepStream is a stream of keep-alives. The server answers one after another.
type keepStream struct {
	*memberStream
	fate Fate // of the keep-alive that is handled
}

func (s *keepStream) RecvMsg(msg any) error {
	for {
		if err := s.ServerStream.RecvMsg(msg); err != nil {
			return err
		}
		now, f, err := s.arrives(msg)
		s.fate = f
		if err == nil && now.Condition == Unrenewing {
			err = now.await(s.Context(), s.life)
		}
		if err != nil || now.Condition != Deposed {
			return err
		}
		// A deposed leader acknowledges it by itself.
		id := msg.(*pb.LeaseKeepAliveRequest).ID
		resp := &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: id, TTL: now.leases[id]}
		resp.Header.ClusterId = uint64(s.member.etcd.Server().Cluster().ID())
		resp.Header.Revision = now.rev
		if err := s.reply(resp, now); err != nil {
			return err
		}
	}
}

func (s *keepStream) SendMsg(msg any) error { return s.reply(msg, s.member.at()) }

func (s *keepStream) reply(msg any, now state) error {
	s.member.show(msg, now)
	if s.fate.DelayReply > 0 {
		time.Sleep(s.fate.DelayReply)
	}
	if s.fate.DropReply {
		s.conn.reset()
		return errDropped
	}
	return s.ServerStream.SendMsg(msg)
}

// watchStream is a stream of watches. A member that is behind holds events back
// and gives new watches those since the revision that it shows.
type watchStream struct {
	*memberStream
	sending chan struct{} // has an element while a message is sent
	held    []*pb.WatchResponse
	asked   []Watch // that the server makes, in this order
	live    map[int64]Watch
	reply   time.Duration // the delay of the next reply
	drop    bool          // it is lost instead
}

func (s *watchStream) RecvMsg(msg any) error {
	if err := s.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	create := msg.(*pb.WatchRequest).GetCreateRequest()
	if create == nil {
		return nil
	}
	w := Watch{Key: string(create.Key), Link: s.conn.link, Member: s.member}
	now, f, err := s.arrives(create)
	if err != nil { // the stream ends, and the library asks for the watch again
		w.Link.loses([]Watch{w})
		return err
	}
	w.Asked = time.Now()
	w.Resumed = create.StartRevision > 0 || w.Link.hasLost(w.Key)
	if now.behind() && create.StartRevision == 0 {
		create.StartRevision = now.rev + 1
	}
	s.sending <- struct{}{}
	s.reply, s.drop = f.DelayReply, f.DropReply
	s.asked = append(s.asked, w)
	<-s.sending
	return nil
}

func (s *watchStream) SendMsg(msg any) error {
	resp := msg.(*pb.WatchResponse)
	s.sending <- struct{}{}
	defer func() { <-s.sending }()
	now := s.member.at()
	s.count(resp)
	// Events stay in order; the creation of another watch passes them.
	if len(s.held) > 0 && !resp.Created || s.holds(resp, now) {
		s.held = append(s.held, resp)
		return nil
	}
	if resp.Created {
		delay, drop := s.reply, s.drop
		s.reply, s.drop = 0, false
		if delay > 0 {
			time.Sleep(delay)
		}
		if drop {
			s.conn.reset()
			return errDropped
		}
	}
	return s.send(resp, now)
}

// holds reports whether a message must wait until the member is healthy.
func (s *watchStream) holds(resp *pb.WatchResponse, now state) bool {
	switch {
	case now.Condition == Mute:
		return true
	case !now.behind(), resp.Created, resp.Canceled:
		return false
	}
	for _, ev := range resp.Events {
		if ev.Kv.ModRevision > now.rev {
			return true
		}
	}
	return len(resp.Events) == 0 // a progress notification
}

func (s *watchStream) send(resp *pb.WatchResponse, now state) error {
	s.member.show(resp, now)
	return s.ServerStream.SendMsg(resp)
}

// flush sends what was held.
func (s *watchStream) flush() {
	s.sending <- struct{}{}
	defer func() { <-s.sending }()
	now := s.member.at()
	for len(s.held) > 0 && !s.holds(s.held[0], now) {
		resp := s.held[0]
		s.held = s.held[1:]
		if s.send(resp, now) != nil {
			return // the stream has ended
		}
	}
}

// count counts watches and events.
func (s *watchStream) count(resp *pb.WatchResponse) {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if resp.Created {
		s.live[resp.WatchId] = s.asked[0]
		s.asked = s.asked[1:]
	}
	if resp.Canceled {
		delete(s.live, resp.WatchId)
	}
	s.conn.link.countEvents(len(resp.Events))
}

// watched notes the begin or the end of a stream of watches.
func (m *Member) watched(s *watchStream, begins bool) {
	m.etcd.mu.Lock()
	n := m.etcd.streams
	m.etcd.streams++
	m.etcd.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if begins {
		m.opened[s] = n
		return
	}
	delete(m.opened, s)
	s.conn.link.loses(s.asked, slices.Collect(maps.Values(s.live)))
}
