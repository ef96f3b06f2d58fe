package driver

// Sharer is a Driver whose queues are shared with clients of another library.
// It names, orders and removes entries as that library does, and decides as
// that library would.
//
// The clauses of Session hold with these exceptions. Modes, IDs and sessions of
// foreign entries are shown as far as known. Pass leaves no marker. Operations
// that a kind of queue does not support return ErrInvalid: Record, SetRecord
// and a Contender's Record without a record, Convert without conversions, Write
// without values that change, Remove where a key can be used again, and always
// Queues, since foreign entries do not show what is a queue. Other clients may
// delay or wake a contender in other cases than W2 has.
//
// V5: When a queue has an entry that the other library would not make there,
// Ahead returns ErrRefused and names it. Baton cannot know its order, or
// whether it ever leaves.
type Sharer interface {
	Driver

	// SharedName checks the name of a queue of a kind, and returns its
	// canonical form. ErrInvalid says that the layout has no such name, or no
	// such kind of queue.
	SharedName(kind, name string) (string, error)

	// SharedValue returns the value of a contender's entry, in the form that
	// the other library reads. ErrInvalid says that the payload would have a
	// meaning there.
	SharedValue(kind, identity string, payload []byte) ([]byte, error)
}
