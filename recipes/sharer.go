package recipes

import (
	"context"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// sharer has the shared turns of a queue with WithSharedTurns. Nothing of it
// runs for a queue without the option: see shared.go for the life of a turn.
type sharer struct {
	queue *Queue

	// Locked before the mu of a turn. No request is sent and no observer
	// called while it is locked.
	mu   sync.Mutex
	mode string  // of all its turns
	rule Rule    // that of the first request with Shares
	open *shared // the turn whose gate is open, or nil
	// of this Queue's contenders that shared turns keep out, the last at the
	// service
	rival struct {
		session string
		token   coordinator.Token
	}
}

// shares reports whether a request can have a shared turn. All users must be
// able to share the entry: its mode, its value, its rule.
func (s *sharer) shares(ctx context.Context, request *Request) bool {
	if !request.Shares || request.Payload != nil || request.Queued != nil {
		return false
	}
	// The first request decides, as in keeper.keeps.
	s.mu.Lock()
	if s.mode == "" {
		s.mode, s.rule = request.Mode, request.Rule
	}
	same, open := s.mode == request.Mode, s.open != nil
	s.mu.Unlock()
	if !same || open {
		return same
	}
	return s.queue.watches(ctx)
}

// acquire is Queue.contend for a request that shares.
func (s *sharer) acquire(ctx context.Context, request Request) (*Hold, error) {
	user := &user{call: call{Request: request, ctx: ctx, began: time.Now()}}
	for {
		turn, err := s.turnOf(user)
		if err == nil {
			var hold *Hold
			if hold, err = turn.serve(user); hold != nil {
				return hold, nil
			}
		}
		if err != nil && err != errAgain { //nolint:errorlint // our own word
			user.notGranted(s.queue, err)
			return nil, err
		}
		// The turn was of no use, and its gate is closed: the next one is
		// another.
	}
}

// turnOf returns the turn that a call may use, once it is admitted.
func (s *sharer) turnOf(u *user) (*shared, error) {
	turn := s.enter(u)
	switch {
	case turn == nil:
		return s.try(u)
	case u.got != nil:
		return turn, turn.wait(u)
	}
	return turn, nil
}

// enter adds a call to the turn whose gate is open, or begins one. It returns
// nil for a Try that would have to wait for a join.
func (s *sharer) enter(user *user) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.open
	user.got = nil
	switch {
	// Counted at once, with the gate open: the last user cannot leave before
	// this call is served.
	case turn != nil && turn.admitted:
		turn.users++
		turn.watch()
		return turn
	case user.Try:
		return nil
	}
	user.got = make(chan error, 1)
	if turn != nil {
		turn.waiting = append(turn.waiting, user)
		if turn.inQueue() {
			turn.watch()
		}
		return turn
	}
	turn = s.newTurn(user.Request)
	turn.waiting = append(turn.waiting, user)
	s.open = turn
	// Not in the goroutine of the call: the join belongs to all users, and goes
	// on when this one gives up.
	ctx, cancel := context.WithCancelCause(context.Background())
	turn.cancelJoin = cancel
	if !s.queue.client.Go(func() { turn.join(ctx) }) {
		cancel(nil)
		turn.fail(coordinator.ErrClosed, nil)
	}
	return turn
}

// newTurn returns a turn that has not joined yet.
func (s *sharer) newTurn(r Request) *shared {
	q := s.queue
	r.Payload = q.payload
	t := &shared{sharer: s}
	t.attempt = q.newAttempt(r, q.newInfo(r, time.Now()))
	return t
}

// try wins a turn for a Try while none is admitted. It has an attempt of its
// own: it must not wait with others, and they must not get its error.
func (s *sharer) try(user *user) (*shared, error) {
	turn := s.newTurn(user.Request)
	defer turn.attempt.leaveLater() // as in contend
	if err := turn.attempt.win(user.ctx); err != nil {
		user.failed = turn.attempt
		return nil, err
	}
	// All in one step: the turn is admitted before others can see it.
	s.mu.Lock()
	turn.enqueued()
	turn.users, turn.admitted = 1, true
	turn.closed = s.open != nil || s.rivalBehind(turn.attempt)
	if !turn.closed {
		s.open = turn
	}
	s.mu.Unlock()
	turn.begin(turn, turn.attempt)
	return turn, nil
}

// rivalComes closes the gate for a contender of this Queue that the turns keep
// out and that has an entry of its own: at once, and not when the watch shows
// it. attempt has not joined yet.
func (s *sharer) rivalComes(attempt *attempt) {
	if attempt.Try { // it joins only if no shared turn is ahead
		return
	}
	s.mu.Lock()
	if s.open != nil && s.keepsOut(attempt.Mode) {
		s.open.shut()
	}
	s.mu.Unlock()
	// Again when it has joined: a turn may have begun since, and have joined
	// before it. If it joins behind, it may stay open.
	// Queued is called before the attempt can be admitted.
	queued := attempt.Queued
	attempt.Queued = func() {
		s.rivalJoined(attempt)
		if queued != nil {
			queued()
		}
	}
}

// rivalJoined notes that a contender of this Queue has joined which the turns
// may keep out. The other order of the two joins is seen in shared.join.
func (s *sharer) rivalJoined(rival *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.keepsOut(rival.Mode) {
		return
	}
	// The last in the queue: the replies to joins may come in another order.
	if s.rival.session != rival.session.ID() || s.rival.token < rival.joined.Token {
		s.rival.session, s.rival.token = rival.session.ID(), rival.joined.Token
	}
	if t := s.open; t != nil && t.inQueue() && s.rivalBehind(t.attempt) {
		t.shut()
	}
}
