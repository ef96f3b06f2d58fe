// Package history records what users of Baton's recipes observe, and checks it.
//
//	h := history.New()
//	a := h.Attempt("client-1", name, history.Mutex, 1, 1)
//	l, err := m.Lock(ctx)
//	if err != nil {
//		a.Failed(err)
//		return
//	}
//	g := a.Granted(l.Context(), l.Token())
//	...
//	g.Releasing()
//	g.Released(l.Unlock(ctx))
//	...
//	h.Check(t)
//
// A hold is what its user may believe: it begins when the recipe's call
// returns, and ends when its release is called or its context ends, whichever
// is first. The promise is that holds which exclude each other do not overlap.
// All processes of the machine use one clock (see Now), so their histories can
// be merged.
//
// # Checks
//
// Direct checks, which take linear time: holds that exclude each other do not
// overlap, not even by a nanosecond; permits never exceed the limit; a request
// made after a grant gets a greater token; no request is granted before a
// conflicting one with a smaller token; a fenced register accepts no token
// older than one it has accepted.
//
// As an independent check, porcupine searches for an order in which each
// operation takes effect at one moment between its call and its return, for
// models of a lock, a read-write lock, a semaphore and a fenced register. A
// search that times out is reported, and fails a soak.
//
// # What is not checked
//
// There is no promise that a stopped process, or one whose entry an operator
// has deleted, notices its loss before the next grant. Excuse marks such a
// client for a period. Its holds after that are checked, except the order of a
// grant from that period.
package history
