package simulation

import "github.com/baton-go/baton/coordinator/driver"

// This file judges what clients send: at the moment of the sending.

// sends is called when a client sends the removal or the conversion of a
// contender's entry, before any delay of the request: all contexts that end
// with that have ended. When the service has applied the request it is too late
// to judge this: time has passed by then, and with it every goroutine that was
// to end a context has run.
func (w *world) sends(what string, name driver.Queue, id, mode string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[name]
	if l == nil { // of slots
		return
	}
	for _, h := range l.holds {
		if h.id == id {
			w.judgeSent(what, l, h, mode)
		}
	}
}

// closes is sends for the entries of a session that is being closed.
func (w *world) closes(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.queues {
		for _, h := range l.holds {
			if h.session == session {
				w.judgeSent("close", l, h, "")
			}
		}
	}
}

// judgeSent: mode is that of a conversion, else empty. A writer that becomes a
// reader ends the contexts of its writes; other conversions end none.
func (w *world) judgeSent(what string, l *queue, h *hold, mode string) {
	w.reach(sentRemoval)
	for _, x := range h.handles {
		if x.live() && (mode == "" || mode == "r" && x.writes && l.name.recipe == "rwlock") {
			w.violation("%s: %s of %d is sent while a context of it is alive", l.name.queue, what,
				h.token)
			return
		}
	}
}
