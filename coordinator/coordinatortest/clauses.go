package coordinatortest

// clauses are the sentences of package driver that cases check, word for word; a
// test compares them with driver.go. Keys are the clause numbers there; statements
// without a number go by the name of what they describe.
var clauses = map[string]string{
	"G1": `Every method may be called by many goroutines at once.`,
	"G2": `Every call ends soon after its context does, whatever the service does. A request in flight may still be applied afterwards.`,
	"G3": `Every error says, by [errors.Is], which of the sentinels of this package it is, and carries the service's own error as a cause; or, when the call's context has ended, it may be the context's error.`,

	"Token": `Tokens of one queue rise strictly in the order in which contenders joined it, for as long as the service keeps its data.`,
	"Queue": `Queues are told apart by the whole string only; "m/a" and "m/a%2Fb" have nothing in common.`,
	"Mode":  `Every view shows it.`,
	"Key":   `Key is the driver's own handle of the entry. It is never used for another entry.`,
	"TTL":   `TTL is the time to live that the service granted.`,
	"Done":  `Done is closed soon after the service says that the session is over.`,
	"List":  `List reads the first limit entries of a queue with their values, all of them if limit is 0, in order.`,
	"Empty": `A queue that nobody ever joined is empty, not an error.`,
	"Last":  `Last is true when the view shows nobody behind.`,

	"Version":   `Version tells one state of a value from all others of that value. Only equality means something. Zero is that of a value that is not there.`,
	"Head":      `Head waits until the first entry of the queue is in another state than known, and returns it. It returns at once if known is Any.`,
	"Record":    `Record waits until the queue's record is in another version than known, and returns it. It returns at once if known is Any.`,
	"SetRecord": `SetRecord writes the queue's record if its version is known, and returns the new version. The value has 1 byte to 64 KiB. A zero version means that there must be no record.`,

	"O1": `The session lives at the service for at least ttl after any moment at which Open or an acknowledged Renew was called, less Slack, and it ends soon after the ttl when it is not renewed.`,
	"O2": `When the service does not grant exactly ttl, Open returns ErrInvalid with both values, and leaves no session behind.`,
	"O3": `Each Open makes a new session with an ID that was never used before. A driver on a connection that it was given may instead adopt that connection's session, and returns ErrSessionLost from then on if it can get no other.`,
	"O4": `A failed Open leaves nothing that outlives the ttl.`,

	"R1": `nil means that the service had the session at some moment after the call began, and keeps it as O1 says.`,
	"R2": `ErrSessionLost means that the session is over at the service. Once over it is over for ever: no call on it succeeds again, Close apart.`,

	"J1": `The order of a queue is the order in which the service applied the joins, and tokens rise strictly in that order, over sessions, clients and restarts.`,
	"J2": `Join with an ID that stands in the queue already (Again is set) returns that entry with its token. One ID never has two entries.`,
	"J3": `Of the contenders in a queue, exactly the first may see First.`,
	"J4": `When Join fails with any error but ErrTaken and ErrStale, the entry may or may not be there, now or later. The coordinator then calls Join again with Again set, or Forget.`,
	"J5": `A session that is over at the service can no longer join: ErrSessionLost, and nothing is left behind.`,
	"J6": `With Alone set and the queue not empty, Join returns ErrTaken, leaves no entry and no watch, and wakes nobody.`,
	"J7": `With Record set and the queue's record in another version at the moment of joining, Join returns ErrStale, leaves no entry and no watch, and wakes nobody. With Alone set as well and both against it, it may be either error.`,

	"J8": `Nearest is zero, or the place of one who had joined before own, with no contender of Baton between the two when own joined. It may have left since. It costs the same however long the queue is: a driver that would have to read the queue leaves it zero.`,

	"V1": `The view is at least as new as own's join and as anything that this session was told before by Watch. It may show a contender who has left since; it never lacks one that stands ahead.`,
	"V2": `When own is no longer in the queue the error is ErrGone, or ErrSessionLost. A place that was converted is not in the queue.`,
	"V3": `Last is true only if nobody stood behind own at the moment that the view shows.`,
	"V4": `With the zero Place for own it shows the whole queue, as if own came next, at least as new as everything that this session finished before. Last is true.`,

	"W1": `It returns nil once the service has shown that one of them is gone: because it was left, forgotten, converted or deleted, or because its session ended. If one is gone at the time of the call it returns nil at once. No leaving is missed, even over reconnects and compactions.`,
	"W2": `Nothing but a leaving among the places, or an error, ends the wait: the comings and goings of others wake nobody.`,
	"W3": `When ctx ends it returns the context's error and leaves at the service at most one watch for each place, which goes when the place does, or one for the queue, which goes when the queue changes.`,
	"W4": `ErrSessionLost when the service says that this session is over; ErrUnavailable when the service cannot be reached or a quorum is missing, and the coordinator tries again.`,

	"N1": `passed is true only if the place left by Pass. False says nothing.`,
	"N3": `What it leaves at the service is no contender: to all calls the queue is as if it were not there. It goes with this session at the latest, and when it is of no more use.`,

	"M1": `It happens in one step. ID, session, token and place in the queue stay. A view shows the old entry or the new one, never both and never neither.`,
	"M2": `To Watch, the old place has left.`,
	"M3": `When own is not in the queue the error is ErrGone, and nothing is made. Calling again with the same arguments after an unknown outcome is safe: it returns the new place. A mode that own has already is ErrInvalid.`,
	"M4": `A conversion that is late makes nothing once the contender has left or was forgotten.`,

	"P1": `After nil, List and Head show the value, and no Write of this entry that was called before is applied any more. Calls for one entry do not overlap.`,
	"P2": `When own is not in the queue the error is ErrGone, and nothing is made, also later.`,

	"L1": `After nil the entry is gone. Whoever is next can be admitted.`,
	"L2": `When that entry is not there, the error is ErrGone, and nothing was deleted: not an entry of another contender, session or time.`,
	"L3": `Calling Leave again after an unknown outcome is safe; the second call may say ErrGone.`,

	"F1": `After nil, no Join of this ID on this session that was called before can still be applied, even if its request is still under way. Forgetting an ID that never joined is not an error.`,
	"F2": `Other contenders of the same session and queue keep their places; a Join of theirs that is under way may fail with ErrUnavailable.`,

	"K1": `nil means that the entry stood in the queue, with that token, at some moment after the call began.`,
	"K2": `ErrGone means that it did not: it was left, forgotten, converted or deleted, its session ended, or no entry of this queue ever had that key and token, however odd they are.`,

	"X1": `After nil the entry is gone, and the queue goes on as if an operator had deleted it at the service: whoever waits for it hears of a leaving that is no Pass, and to its own contender it is an entry that somebody else has removed.`,
	"X2": `ErrGone means that there was no such entry, as in K2, and that nothing was deleted.`,
	"X3": `Calling Remove again after an unknown outcome is safe; the second call may say ErrGone.`,

	"S1": `The list is at least as new as everything that this session finished before.`,

	"E1": `A queue in which somebody stood during all of the call is there, whatever session that is of.`,
	"E2": `A queue in which nobody stood at any moment of the call is not there, whatever the service keeps of it: a record, an empty place, what was left by Pass.`,

	"Q1": `Of several changes in a row all but the last may be skipped. The last is never missed, even over reconnects and compactions, and nothing that is older than what was shown before is shown after it. W3 and W4 hold for it.`,
	"H1": `The state is at least as new as everything that this session finished before, and as what Head returned before. Of several changes in a row all but the last may be skipped; the last is never missed, even over reconnects and compactions.`,
	"H2": `It waits for the first entry alone: the comings, goings and writes of others wake nobody. While the queue is empty it waits for somebody to join.`,
	"H3": `When ctx ends it returns the context's error and leaves at the service at most one watch, which goes when what it watched changes. W4 holds for it too.`,

	"D1": `The record is at least as new as everything that this session finished before. The last of several changes is never missed, even over reconnects and compactions.`,
	"D2": `When ctx ends it returns the context's error and leaves at the service at most one watch, which goes when what it watched changes. W4 holds for it too.`,
	"D3": `With another version, Any included, the error is ErrStale, and nothing is written. When the same call is repeated after an unknown outcome, ErrStale may also mean that the first one was applied.`,
	"D4": `A record is no contender: a queue with a record and nobody in it is empty. A record stays when contenders leave and sessions end.`,

	"C1": `After nil all entries of the session are gone, at once and not after the ttl, and requests that were under way are not applied any more.`,
	"C2": `It releases what the session started in this process, also when the service does not answer, and then returns ErrUnavailable or the context's error.`,
	"C3": `A driver on a connection or lease that it was given removes its own entries and leaves the connection or lease as it was.`,
}

// untestable are the clauses that have no case, with reasons.
var untestable = map[string]string{
	"J4": "it allows and promises nothing; what must hold after such an error is checked by J2 and F1",
	"C3": "needs a connection or lease that was made outside the driver; a driver's own tests check it",
}

// cases are all cases, in the order in which they run.
var cases = join(
	generalCases, openCases, renewCases,
	joinCases, aloneCases, staleCases, viewCases, lastCases, wholeCases,
	leavingCases, watchCases,
	convertCases, convertedCases, lateConvertCases, raceCases, writeCases, lateWriteCases,
	leaveCases, followCases, followedCases, followWaitCases, chainCases, queueCases, forgetCases, checkCases, removeCases, listCases, linesCases,
	headCases, headChangeCases, headToldCases, headWaitCases,
	recordCases, recordToldCases, setRecordCases,
	closeCases,
)

func join(groups ...[]testCase) []testCase {
	var all []testCase
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
