package driver

// Sharer is a Driver in whose queues contenders of another client stand too:
// entries are named, ordered and removed as that client does it, and every
// decision is the one that it would take.
//
// What such a queue cannot give, Baton does without. The clauses of Session
// hold but for these. Modes, IDs and sessions of others are shown as far as
// their entries tell. Nobody leaves marks: Pass is Leave. A kind without a
// record refuses Record, SetRecord and a Contender's Record with ErrInvalid;
// one without conversions, or without values that change, refuses Convert, or
// Write; one in which a key can come back as another entry refuses Remove; and
// Queues is refused, since others' entries do not say what is a queue. Other
// clients may make a contender's entry wait, or wake it, for what is none of
// W2.
//
// V5: When an entry that stands in a queue is not one that the other client
// would make there, Ahead returns ErrRefused and names it, since nobody can say
// who comes first, or whether it ever leaves.
type Sharer interface {
	Driver

	// SharedName checks the name of a queue of a kind, and returns the form of
	// it that all its spellings have in common. ErrInvalid says that the layout
	// has no such name, or no such kind of queue.
	SharedName(kind, name string) (string, error)

	// SharedValue is what an entry shows of a contender, in place of what Baton
	// writes in queues of its own: the other client reads it. ErrInvalid says
	// that the payload would mean something there.
	SharedValue(kind, identity string, payload []byte) ([]byte, error)
}
