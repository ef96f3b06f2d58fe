package netproxy

import (
	"context"
	"fmt"
	"slices"
)

// Trap waits for one exchange and then breaks it. It is sprung at most once.
type Trap struct {
	proxy  *Proxy
	match  Match
	onSend bool // act on the request, not on its reply
	act    func(*link) (pass bool)
	done   chan struct{}

	// The request whose reply is awaited. Guarded by proxy.mu, like the proxy's
	// list of traps.
	waiting bool
	link    *link
	id      int64
}

// LoseReply lets the next matching request reach the server and waits for its
// reply. When the reply arrives, which shows that the server has applied the
// request, its connection is reset on both sides and the client never sees the
// reply. New connections work.
func (p *Proxy) LoseReply(match Match) *Trap {
	return p.arm(&Trap{match: match, act: func(l *link) bool { l.abort(); return false }})
}

// LoseRequest resets the connection of the next matching request, on both
// sides, instead of forwarding it: the server never sees it.
func (p *Proxy) LoseRequest(match Match) *Trap {
	return p.arm(&Trap{match: match, onSend: true, act: func(l *link) bool { l.abort(); return false }})
}

// HoldReply lets the next matching request reach the server and cuts the way
// down when its reply arrives: the reply and all later bytes are held until
// Heal delivers or DropHeld drops them.
func (p *Proxy) HoldReply(match Match) *Trap {
	return p.arm(&Trap{match: match, act: func(*link) bool { p.gates[Down].shut(); return true }})
}

// Sprung is closed when the trap was sprung.
func (t *Trap) Sprung() <-chan struct{} { return t.done }

// Wait waits until the trap is sprung. It fails when ctx ends first; the trap
// stays armed.
func (t *Trap) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("netproxy: no request triggered the trap: %w", context.Cause(ctx))
	}
}

// Disarm removes the trap if it was not sprung.
func (t *Trap) Disarm() {
	t.proxy.mu.Lock()
	defer t.proxy.mu.Unlock()
	t.proxy.disarm(t)
}

func (p *Proxy) arm(t *Trap) *Trap {
	t.proxy = p
	t.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

// disarm needs p.mu.
func (p *Proxy) disarm(t *Trap) {
	p.traps = slices.DeleteFunc(p.traps, func(other *Trap) bool { return other == t })
}

// spring passes messages to the armed traps and reports whether their bytes may
// be passed on. It runs before the bytes are queued, so a trap sees a request
// before its reply.
func (p *Proxy) spring(l *link, way Direction, messages []Message) bool {
	for _, m := range messages {
		if t := p.sprung(l, way, m); t != nil {
			pass := t.act(l)
			close(t.done)
			if !pass {
				return false
			}
		}
	}
	return true
}

// sprung removes the trap that this message triggers from the list.
func (p *Proxy) sprung(l *link, way Direction, m Message) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.traps {
		if t.sees(l, way, m) {
			p.disarm(t)
			return t
		}
	}
	return nil
}

func (t *Trap) sees(l *link, way Direction, m Message) bool {
	if way == Up && !m.Reply {
		hit := !t.awaits() && t.match(m.Name)
		if hit {
			t.waiting, t.link, t.id = true, l, m.ID
		}
		return hit && t.onSend
	}
	return t.waiting && m.Reply && t.link == l && t.id == m.ID
}

// awaits is false if the connection of the selected request has ended without a
// reply: then the trap selects again.
func (t *Trap) awaits() bool { return t.waiting && t.link.ctx.Err() == nil }
