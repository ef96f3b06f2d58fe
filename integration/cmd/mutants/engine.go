package main

// ofEngine are further mutations of the engine: what it concludes from answers
// that are missing, late or lost.
var ofEngine = []mutation{{
	name: "deadline-moves-back", promise: "P8",
	what:   "A renewal whose reply is late moves the deadline back.",
	file:   "internal/engine/renewal.go",
	old:    `; d >= time.Duration(s.deadline.Load()) {`,
	new:    `; d > 0 {`,
	caught: []test{{pkg: "internal/engine", name: "TestLateRepliesOfRenewalsChangeNothing"}},
}, {
	name: "close-waits-for-one-member", promise: "P4",
	what: "A close waits for a member that hangs, as long as the TTL.",
	file: "internal/engine/closing.go",
	old: `context.WithTimeout(ctx, s.TTL()/AttemptsPerTTL)
		defer cancel()
		err := s.driver.Close`,
	new: `context.WithTimeout(ctx, s.TTL()*AttemptsPerTTL)
		defer cancel()
		err := s.driver.Close`,
	caught: []test{{pkg: "internal/engine", name: "TestCloseIsSentAgainWhileItIsNotAnswered"}},
}, {
	name: "failed-renewal-waits-for-the-next", promise: "P2",
	what:   "A renewal that failed is repeated at the usual interval only.",
	file:   "internal/engine/renewal.go",
	old:    `				timer.Reset(min(pauses.NextBackOff(), time.Until(due)))`,
	new:    `				_ = pauses`,
	caught: []test{{pkg: "internal/engine", name: "TestASlowLogDoesNotReorderSuspendedAndResumed"}},
}, {
	name: "end-at-the-service-unnoticed", promise: "P2",
	what:   "The end of a session at the service is noticed with the next renewal only.",
	file:   "internal/engine/session.go",
	old:    `		case <-s.driver.Done():`,
	new:    `		case <-(<-chan struct{})(nil):`,
	caught: []test{{pkg: "internal/engine", name: "TestIdentityIsReadOnceInASession"}},
}, {
	name: "sleep-unnoticed-by-waiting-holders", promise: "P2",
	what: "A holder that only waits for the end of its context does not notice the machine's sleep.",
	file: "internal/engine/session.go",
	old: `			if s.mayHaveSlept(s.client.now()) {
				s.ask()`,
	new: `			if false {
				s.ask()`,
	caught: []test{{pkg: "internal/engine", name: "TestHolderThatWaitsForDoneIsNotifiedSoonAfterASleep"}},
}, {
	name: "unanswered-question-is-a-yes", promise: "P2",
	what:   "After the machine's sleep a session counts as alive if the service does not answer.",
	file:   "internal/engine/checks.go",
	old:    `	if errors.Is(err, ErrUnavailable) && s.mayHaveSlept(s.client.now()) {`,
	new:    `	if false {`,
	caught: []test{{pkg: "internal/engine", name: "TestSleepWhileTheServiceIsAwayIsALoss"}},
}, {
	name: "left-join-goes-on", promise: "P4",
	what: "A join whose caller has left waits for an answer without a bound.",
	file: "internal/engine/join.go",
	old: `	time.AfterFunc(min(s.patience.Lasts, answerTime), stop)
`,
	new: `	_ = stop
`,
	caught: []test{{pkg: "internal/engine", name: "TestJoinThatItsCallerHasLeftIsBounded"}},
}, {
	name: "left-join-keeps-its-entry", promise: "P4",
	what:   "A join whose caller has left keeps its entry.",
	file:   "internal/engine/join.go",
	old:    `	if j, _ := c.settle(err); err == nil {`,
	new:    `	if j, _ := c.settle(err); false && j.First {`,
	caught: []test{{pkg: "internal/engine", name: "TestJoinGoesOnWithoutItsCallerUnlessAlone"}},
}, {
	name: "left-joins-do-not-learn", promise: "P8",
	what: "After a caller has left a join, the next lone joins end with their callers.",
	file: "internal/engine/join.go",
	old: `	s.hasten()
	time.AfterFunc`,
	new:    `	time.AfterFunc`,
	caught: []test{{pkg: "internal/engine", name: "TestJoinGoesOnWithoutItsCallerUnlessAlone"}},
}, {
	name: "near-deadline-stays", promise: "P8",
	what:   "A join with a near deadline ends with its caller.",
	file:   "internal/engine/join.go",
	old:    `if by, ok := ctx.Deadline(); ok && time.Until(by) < hurry {`,
	new:    `if by, ok := ctx.Deadline(); ok && false && by.IsZero() {`,
	caught: []test{{pkg: "internal/engine", name: "TestJoinGoesOnWithoutItsCallerUnlessAlone"}},
}, {
	name: "uncertain-id-is-reused", promise: "P1",
	what: "The ID of a contender whose join had no answer is used again before it is forgotten.",
	file: "internal/engine/join.go",
	old: `	case c.uncertain:
		s.ForgetLater`,
	new: `	case c.uncertain:
		s.reuse(c.contender.ID)
		s.ForgetLater`,
	caught: []test{{pkg: "internal/engine", name: "TestIDOfAnUnansweredJoinIsNotUsedAgain"}},
}, {
	name: "uncertain-leave-reuses-the-id", promise: "P7",
	what: "The ID of a contender is used again although a request to remove its entry may be under way.",
	file: "internal/engine/leave.go",
	old: `	case certain:
		s.reuse(id)`,
	new: `	case true:
		s.reuse(id)`,
	caught: []test{{pkg: "internal/engine", name: "TestIDIsReusedOnlyWhenAllRequestsWereAnswered"}},
}, {
	name: "joins-without-a-bound", promise: "P8",
	what:   "A session sends more joins at once than a service answers.",
	file:   "internal/engine/session.go",
	old:    `joins:    make(chan struct{}, mostChanges)`,
	new:    `joins:    make(chan struct{}, 1<<20)`,
	caught: []test{{pkg: "internal/engine", name: "TestConcurrentJoinsAreBounded"}},
}, {
	name: "own-removal-is-not-held", promise: "P8",
	what: "A release whose first attempt was applied reports that nothing was held.",
	file: "internal/engine/leave.go",
	old: `		if gone && uncertain {
			return nil`,
	new: `		if false {
			return nil`,
	caught: []test{{pkg: "internal/engine", name: "TestChangesAreRepeatedUntilTheyAreAnswered"}},
}, {
	name: "failed-leave-is-not-repeated", promise: "P4",
	what: "A release without an answer leaves its entry.",
	file: "internal/engine/leave.go",
	old: `	s.leaveLater(queue, own, !uncertain)
	return maybe`,
	new: `	
	return maybe`,
	caught: []test{{pkg: "internal/engine", name: "TestRemovalsContinueInTheBackground"}},
}, {
	name: "failed-forget-is-not-repeated", promise: "P4",
	what: "A Forget without an answer leaves its contender.",
	file: "internal/engine/leave.go",
	old: `	if err != nil {
		s.ForgetLater(queue, id)
		return err`,
	new: `	if err != nil {
		return err`,
	caught: []test{{pkg: "internal/engine", name: "TestRemovalsContinueInTheBackground"}},
}, {
	name: "removed-follower-follows-on", promise: "P1",
	what: "A follower whose entry was removed is admitted by a handoff at the same moment.",
	file: "internal/engine/read.go",
	old: `	case !ended || mine.err != nil && err == nil:
		return err`,
	new: `	case !ended || err == nil:
		return err`,
	caught: []test{{pkg: "internal/engine", name: "TestFollowerRemovedAtItsHandoffIsNotFirst"}},
}, {
	name: "uncertain-change-is-certain", promise: "P8",
	what:   "A change without an answer is reported as not applied.",
	file:   "internal/engine/request.go",
	old:    `uncertain = uncertain || unanswered(err) || !ofSession`,
	new:    `uncertain = uncertain || false || !ofSession`,
	caught: []test{{pkg: "internal/engine", name: "TestRefusedChangeIsNotRepeated"}},
}, {
	name: "record-of-a-lost-session-is-certain", promise: "P8",
	what: "A record's write whose session was lost is reported as not applied.",
	file: "internal/engine/request.go",
	old: `|| !ofSession && errors.Is(err, ErrSessionLost)
`,
	new: `|| false
`,
	caught: []test{{pkg: "internal/engine", name: "TestChangeEndsByItsContextOrItsSession"}},
}, {
	name: "loss-in-an-answer-ignored", promise: "P2",
	what: "A request that finds the session lost does not end its holds.",
	file: "internal/engine/request.go",
	old: `	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	if lost`,
	new:    `	if lost`,
	caught: []test{{pkg: "internal/engine", name: "TestChangeEndsByItsContextOrItsSession"}},
}, {
	name: "silent-member-ends-a-request", promise: "P8",
	what:   "A request to a member that does not answer is not repeated at another.",
	file:   "internal/engine/request.go",
	old:    `	if slow && alive && !errors.Is(err, ErrUnavailable) {`,
	new:    `	if false && slow && alive {`,
	caught: []test{{pkg: "internal/engine", name: "TestChangesAreRepeatedUntilTheyAreAnswered"}},
}, {
	name: "late-conversion-not-forgotten", promise: "P4",
	what: "A contender whose conversion had no answer is not forgotten when it leaves.",
	file: "internal/engine/change.go",
	old: `		} else if unanswered(err) {
			s.doubt(place.ID)
		}`,
	new:    `		}`,
	caught: []test{{pkg: "internal/engine", name: "TestContenderOfAnUnansweredChangeIsForgotten"}},
}, {
	name: "late-write-not-forgotten", promise: "P4",
	what: "The ID of a contender whose write had no answer is used again.",
	file: "internal/engine/change.go",
	old: `		err := s.can.Writer.Write(ctx, queue, own, value)
		if unanswered(err) {`,
	new: `		err := s.can.Writer.Write(ctx, queue, own, value)
		if false {`,
	caught: []test{{pkg: "internal/engine", name: "TestContenderOfAnUnansweredChangeIsForgotten"}},
}, {
	name: "own-record-is-stale", promise: "P8",
	what:   "A record's write that its own first attempt refuses is reported as refused by another.",
	file:   "internal/engine/change.go",
	old:    `	if stale && MayHaveApplied(err) && s.Ended() == nil {`,
	new:    `	if stale && MayHaveApplied(err) && s.Ended() == nil && false {`,
	caught: []test{{pkg: "internal/engine", name: "TestRecordIsWrittenIfItsVersionIsKnown"}},
}, {
	name: "queue-watch-ignores-the-record", promise: "P5",
	what: "A change of the record wakes no user of the shared watch.",
	file: "internal/engine/queuewatch.go",
	old: `		w.view.Record = known
		w.wake()`,
	new: `		w.view.Record = known
		`,
	caught: []test{{pkg: "internal/engine", name: "TestQueueWatchShowsTheRecord"}},
}, {
	name: "queue-watch-waits-for-the-removed", promise: "P8",
	what:   "A user of the shared watch whose entry was removed waits on.",
	file:   "internal/engine/queuewatch.go",
	old:    `queued && judge(view), !queued && seen:`,
	new:    `queued && judge(view), false:`,
	caught: []test{{pkg: "internal/engine", name: "TestQueueWatchEndsForARemovedContender"}},
}, {
	name: "queue-watch-waits-for-the-unseen", promise: "P8",
	what:   "A user of the shared watch whose entry was removed before the first view waits on.",
	file:   "internal/engine/queuewatch.go",
	old:    `				if !seen { // removed`,
	new:    `				if false { // removed`,
	caught: []test{{pkg: "internal/engine", name: "TestQueueWatchEndsForARemovedContender"}},
}, {
	name: "lost-session-tells-first", promise: "P2",
	what:   "A lost session is closed at the service before the contexts of its holds have ended.",
	file:   "internal/engine/client.go",
	old:    `	s.endHolds() // another`,
	new:    `	 // another`,
	caught: []test{{pkg: "internal/engine", name: "TestNobodyClosesASessionWhoseHoldsDoNotKnowIt"}},
}, {
	name: "attempts-to-open-last-a-ttl", promise: "P8",
	what:   "Each attempt to open a session but the first lasts a TTL.",
	file:   "internal/engine/client.go",
	old:    `lasts = min(2*lasts, c.config.TTL)`,
	new:    `lasts = c.config.TTL`,
	caught: []test{{pkg: "internal/engine", name: "TestAttemptsToOpenBecomeLonger"}},
}, {
	name: "slow-open-is-used", promise: "P2",
	what:   "A session that is over before it is used is used.",
	file:   "internal/engine/client.go",
	old:    `	if time.Until(s.Deadline()) <= 0 { // lost`,
	new:    `	if false { // lost`,
	caught: []test{{pkg: "internal/engine", name: "TestSessionThatTakesTooLongToOpenIsNotUsed"}},
}, {
	name: "strays-read-by-each-waiter", promise: "P8",
	what:   "Each waiter reads the queue for strays, although another one has.",
	file:   "internal/engine/strays.go",
	old:    `	for covered && q.waiting.Front() != q.fresh {`,
	new:    `	for covered && false {`,
	caught: []test{{pkg: "internal/engine", name: "TestReadForOneWaiterCoversThoseBeforeIt"}},
}, {
	name: "endless-release", promise: "P8",
	what: "A release with the hold's own context has no bound.",
	file: "internal/engine/request.go",
	old: `			case <-time.After(releaseTime):
			case <-bound.Done():`,
	new:    `			case <-bound.Done():`,
	caught: []test{{pkg: "internal/engine", name: "TestReleaseWithTheContextOfItsHoldIsBounded"}},
}, {
	name: "silent-renewals-unnoticed", promise: "P2",
	what:   "A session whose renewals are not answered is not suspended.",
	file:   "internal/engine/renewal.go",
	old:    `	if time.Since(s.answered) >= s.TTL()/suspendedPerTTL {`,
	new:    `	if false {`,
	caught: []test{{pkg: "internal/engine", name: "TestSessionIsSuspendedAfterAQuarterOfTheTTL"}},
}}
