package recipes

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// modeRule is the driver contract's rule for modes. An invalid mode must not
// become the goal of a conversion under way.
var modeRule = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// Convert changes the mode of this hold's entry to one that excludes less, and
// wakes the contenders that watch it. After an error with Maybe set it
// continues in the background. The error is ErrInvalid for an invalid mode, and
// for an entry that others may hold, too: see [WithSharedTurns].
func (h *Hold) Convert(ctx context.Context, mode string) error {
	if err := h.Check(ctx); err != nil {
		return err
	}
	if !modeRule.MatchString(mode) {
		return fmt.Errorf("%w: mode %.20q: want 1 to 16 characters of a-z and 0-9",
			coordinator.ErrInvalid, mode)
	}
	t := h.turn()
	if err := t.alone(); err != nil {
		return err
	}
	t.mu.Lock()
	// With the lock of convert: between the two the last handle could leave.
	if h.ctx.grant.handles() == 0 {
		t.mu.Unlock()
		return coordinator.ErrReleased
	}
	c := t.convert(mode)
	t.mu.Unlock()
	return t.awaitConversion(ctx, c)
}

// Write changes the payload that listings show. Concurrent calls for a grant
// run one after the other. After an error listings may show either payload,
// until the next call succeeds. If the hold ends first, the error is that of
// Err. It is ErrInvalid as for Convert.
func (h *Hold) Write(ctx context.Context, payload []byte) error {
	turn := h.turn()
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: payload has %d bytes; at most %d are allowed",
			coordinator.ErrInvalid, len(payload), MaxPayload)
	}
	if err := turn.alone(); err != nil {
		return err
	}
	if err := h.lockWriting(ctx); err != nil {
		return err
	}
	defer func() { <-turn.writing }()
	if err := h.Check(ctx); err != nil {
		return err
	}
	turn.mu.Lock()
	if h.ctx.grant.handles() == 0 {
		turn.mu.Unlock()
		return coordinator.ErrReleased
	}
	// Before the request: a turn that is released meanwhile is not kept for
	// another caller, which would be shown with this payload.
	turn.written = true
	shown, place := turn.info, turn.place
	turn.mu.Unlock()
	shown.Payload = append([]byte(nil), payload...)
	value, err := turn.queue.encode(shown)
	if err != nil {
		return err
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(turn.ctx, func() { cancel(context.Cause(turn.ctx)) })()
	err = turn.session.Write(bound, turn.queue.id, place, value)
	switch {
	case err == nil:
		turn.mu.Lock()
		turn.info, turn.value = shown, value
		turn.mu.Unlock()
		return nil
	case errors.Is(err, coordinator.ErrRemoved) && ctx.Err() == nil:
		turn.removed() // does nothing after a concurrent release
	}
	if over := turn.err(ctx); over != nil {
		return over
	}
	return err
}

// lockWriting locks t.writing. The caller unlocks it by receiving.
func (h *Hold) lockWriting(ctx context.Context) error {
	over := h.context().Done()
	for {
		select {
		case h.turn().writing <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			if err := h.Check(ctx); err != nil {
				return err
			}
			over = h.turn().ctx.Done() // WithMaxHold has ended only the handle's context
		}
	}
}

// Sequencer returns the token with the name and service of the queue, for
// another process to check: see package fence. A conversion invalidates earlier
// sequencers; the next call returns another one with the same token.
//
// It sends no request, except that the first call of a session reads the
// identity of the service, and that a grant with Terms.Held is converted first.
// If the hold is over, the error is that of Err. In a layout of other clients,
// which has no place for the service's identity, it is ErrInvalid, and the hold
// stays.
func (h *Hold) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	if err := h.Check(ctx); err != nil {
		return fence.Sequencer{}, err
	}
	turn := h.turn()
	turn.mu.Lock()
	conv := turn.conversion
	if turn.heldMode != "" && h.ctx.grant.handles() > 0 {
		conv = turn.convert(turn.heldMode)
	}
	turn.mu.Unlock()
	if conv != nil {
		// after ErrInvalid the entry is unchanged
		if err := turn.awaitConversion(ctx, conv); err != nil && !errors.Is(err, coordinator.ErrInvalid) {
			return fence.Sequencer{}, err
		}
	}
	service, err := turn.session.Service(ctx)
	if over := h.Check(ctx); over != nil {
		err = over
	}
	if err != nil {
		return fence.Sequencer{}, err
	}
	turn.mu.Lock()
	defer turn.mu.Unlock()
	kind, name, _ := turn.queue.id.Split()
	scope := fence.Scope{Service: service, Kind: kind, Name: name}
	return fence.Sequencer{Scope: scope, Token: turn.token, Key: turn.place.Key}, nil
}

// WantedBy is Wanted by a contender whose mode is one that wants accepts. Each
// call has a watch of its own. The entry must not be converted.
func (h *Hold) WantedBy(ctx context.Context, wants func(mode string) bool) error {
	if err := h.Check(ctx); err != nil {
		return err
	}
	turn := h.turn()
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(turn.ctx, func() { cancel(context.Cause(turn.ctx)) })()
	err := turn.session.Wanted(bound, turn.queue.id, h.Place(),
		func(behind driver.Place) bool { return wants(behind.Mode) })
	if over := h.Check(ctx); over != nil {
		return over
	}
	return err
}
