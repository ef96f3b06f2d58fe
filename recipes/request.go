package recipes

import "github.com/baton-go/baton/internal/engine"

// Request describes a contender. With neither a Rule nor Terms it is exclusive:
// its rule is [Exclusive], its release admits the successor without another
// read, and a lock-delay applies.
type Request struct {
	Op    string // the call in errors: "lock", "read-lock", …
	Mode  string // the mode of the entry, unless Terms have a Mode
	Rule  Rule   // for contenders that share the queue
	Terms *Terms // for contenders whose rule depends on the queue's record
	// Try: do not wait.
	Try bool
	// Lesser is a mode that excludes less. The hold can be re-entered in it,
	// and is converted to it when only such handles are left. It may be empty.
	Lesser string
	// Shares: concurrent calls may hold one entry together, if the queue has
	// [WithSharedTurns]. It needs a Rule and no Lesser mode.
	Shares bool
	// Fresh: join the queue also if the context carries a hold.
	Fresh bool
	// Waits is what listings and other contenders may rely on while the
	// contender waits: see [Waits]. The zero value is always right.
	Waits Waits
	// Payload is shown in listings instead of the queue's.
	Payload []byte
	// Queued, if not nil, is called when the contender has joined the queue.
	Queued func()
}

// exclusive reports whether the contender excludes all others, so that its
// release can hand over and a lock-delay applies.
func (r *Request) exclusive() bool { return r.Rule == nil && r.Terms == nil }

// check returns an error if no contender can be made of the request.
func (r *Request) check(name string) error {
	switch {
	case r.Rule != nil && r.Terms != nil:
		return engine.Invalid("%s %q: a request has a rule or terms, not both", r.Op, name)
	case r.Mode == "" && (r.Terms == nil || r.Terms.Mode == nil):
		return engine.Invalid("%s %q: a request needs a mode", r.Op, name)
	case r.Shares && (r.Rule == nil || r.Lesser != ""):
		return engine.Invalid("%s %q: a request that shares a turn needs a rule and no lesser mode", r.Op, name)
	}
	return nil
}
