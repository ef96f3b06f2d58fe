// Package history records what users of Baton's recipes saw, and checks it.
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
// A hold is what its user may believe: it begins when the recipe's call has
// returned, and ends when its release is called or its context is dead,
// whatever is first. The promise is that no two holds overlap that exclude each
// other. Times are those of one clock for all processes of the machine (see
// Now), so histories of several processes can be merged.
//
// # Checks
//
// Direct ones, which take linear time: holds that exclude each other do not
// overlap, by one nanosecond; permits never exceed the limit; whoever asked
// after a grant has a greater token; nobody is granted beside one who stands
// ahead of him, by his token, and whom he would have to wait for; a fenced
// register accepts no token older than one it has accepted.
//
// As an independent witness, porcupine searches an order in which each
// operation takes effect at one moment between its call and its return, for
// models of a lock, a read-write lock, a semaphore and a fenced register. It
// may give up; that is reported as such, and fails a soak.
//
// # What is not judged
//
// Nobody promises that a stopped process, or one whose entry an operator has
// deleted, stops to believe before another is granted. Excuse tells the history
// of those, with the time until which. What they believe afterwards is judged,
// though not the order of a grant that came meanwhile.
package history
