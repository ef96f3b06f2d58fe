package main

// ofSessions are mutations of the session's clock, its requests and the
// clean-up.
var ofSessions = []mutation{{
	name: "deadline-from-the-reply", promise: "P2",
	what:   "The deadline counts from the arrival of a renewal's reply instead of its sending.",
	file:   "internal/engine/renewal.go",
	old:    `s.extend(sent)`,
	new:    `s.extend(s.client.now())`,
	caught: []test{{pkg: "internal/engine", name: "TestSessionEndsAtTheClientBeforeTheService"}},
}, {
	name: "no-margin", promise: "P2",
	what:   "The deadline has no margin: a service whose TTL is slightly shorter expires the session first.",
	file:   "internal/engine/session.go",
	old:    `		margin: ds.Slack() + ds.TTL()/marginsPerTTL,`,
	new:    ``,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestSlackIsTakenOffTheDeadline"}},
}, {
	name: "lost-session-ends-within-its-margin", promise: "P2",
	what: "A client that counts its session as lost ends it at the service at once, and another one holds while work still stops.",
	file: "internal/engine/client.go",
	old: `		s.awaitMargin(c.ctx)
`,
	new:    ``,
	caught: []test{{pkg: "election", name: "TestNextLeaderBeginsATenthOfTheTTLAfterALoss"}},
}, {
	name: "late-renewal-revives", promise: "P2",
	what:   "A renewal acknowledged after the deadline revives the session.",
	file:   "internal/engine/renewal.go",
	old:    `	if s.ctx.Err() != nil || left <= 0 {`,
	new:    `	if s.ctx.Err() != nil {`,
	caught: []test{{pkg: "internal/engine", name: "TestAcknowledgementAfterTheDeadlineRevivesNothing"}},
}, {
	name: "no-clock-comparison", promise: "P2",
	what:   "A session is lost only when a timer fires, not when the clock passes the deadline: after a pause of the process the timer is late.",
	file:   "internal/engine/session.go",
	old:    `	return s.ctx.Err() != nil || now.Sub(s.born) >= time.Duration(s.deadline.Load())`,
	new:    `	return s.ctx.Err() != nil`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "no-renewal-after-sleep", promise: "P2",
	what:   "After the machine's sleep the client does not ask the service whether the session is alive.",
	file:   "internal/engine/checks.go",
	old:    `	return now.wall >= s.wallDeadline.Load()`,
	new:    `	return false`,
	caught: []test{{pkg: "internal/engine", name: "TestHoldLostInASleepIsReported"}},
}, {
	name: "repeated-join-with-new-id", promise: "P4",
	what:   "A join whose reply was lost is repeated under another ID.",
	file:   "internal/engine/join.go",
	old:    `c.uncertain, c.contender.Again = true, true`,
	new:    `c.uncertain, c.contender.ID = true, c.contender.ID[1:]+"0"`,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestLostReplyToJoinMakesOneEntry"}},
}, {
	name: "lost-join-not-undone", promise: "P4",
	what: "A join that failed without an answer is not undone.",
	file: "internal/engine/join.go",
	old: `	case c.uncertain:
		s.ForgetLater(c.queue, c.contender.ID)
`,
	new:    ``,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestCancelledJoinLeavesNoGhost"}},
}, {
	name: "late-join-not-undone", promise: "P4",
	what: "A join that was sent twice is not undone after its entry was removed, and a late request creates the entry again.",
	file: "internal/engine/join.go",
	old:  `		s.doubt(c.contender.ID)`,
	new:  ``,
	caught: []test{
		{pkg: "internal/engine", name: "TestJoinThatArrivesAgainAfterTheLeaveLeavesNoGhost"},
		{pkg: "recipes", name: "TestJoinThatArrivesAfterARemovalLeavesNoGhost"},
	},
}, {
	name: "join-ends-with-its-caller", promise: "P8",
	what: "A join's request is cancelled when its caller's context ends, and the contender is forgotten.",
	file: "internal/engine/join.go",
	old:  `patience.Bind(context.WithoutCancel(ctx), s.longer.Context())`,
	new:  `patience.Bind(ctx, s.longer.Context())`,
	caught: []test{
		{pkg: "internal/engine", name: "TestDeadlinesThatEndDuringJoinsForgetNothing"},
		{pkg: "coordinator/etcd", name: "TestDeadlinesThatEndDuringJoinsKeepTheEpoch"},
	},
}, {
	name: "joins-end-with-their-callers", promise: "P8",
	what:   "A join that ends with its caller need not be the only one of the session.",
	file:   "internal/engine/join.go",
	old:    `	if c.uncertain || len(s.joins) > 1 {`,
	new:    `	if c.uncertain {`,
	caught: []test{{pkg: "internal/engine", name: "TestJoinGoesOnWithoutItsCallerUnlessAlone"}},
}, {
	name: "joins-do-not-learn", promise: "P8",
	what:   "Lone joins that are cancelled one after the other are all forgotten.",
	file:   "internal/engine/join.go",
	old:    `		if c.uncertain && ctx.Err() != nil {`,
	new:    `		if false {`,
	caught: []test{{pkg: "internal/engine", name: "TestCancellationsDuringJoinsForgetOneContender"}},
}, {
	name: "close-tried-once", promise: "P4",
	what:   "A session is closed with one request, for as long as the TTL.",
	file:   "internal/engine/closing.go",
	old:    `		err = s.endAtService(ctx)`,
	new:    `		err = s.driver.Close(ctx)`,
	caught: []test{{pkg: "internal/engine", name: "TestCloseIsSentAgainWhileItIsNotAnswered"}},
}, {
	name: "refused-own-watch-ignored", promise: "P1",
	what:   "A waiter that may not watch its own entry waits on, also when that is removed.",
	file:   "internal/engine/read.go",
	old:    `	case mine.err != nil:`,
	new:    `	case false:`,
	caught: []test{{pkg: "internal/engine", name: "TestRefusedWatchOfItsOwnEntryEndsAWait"}},
}, {
	name: "own-removal-ignored", promise: "P1",
	what: "A waiter whose own entry is gone treats the queue as empty.",
	file: "internal/engine/read.go",
	old: `			if lost := s.driver.Renew(ctx); lost != nil {
				return lost
			}`,
	new:    `			return nil`,
	caught: []test{simulated(""), {pkg: "semaphore", name: "TestWaiterThatWasRemovedFailsAndOthersContinue"}},
}, {
	name: "nearest-of-a-later-reply", promise: "P1",
	what:   "A join whose reply was lost trusts the nearest entry in a later reply.",
	file:   "internal/engine/join.go",
	old:    `		c.joined.First, c.joined.Nearest = false, driver.Place{}`,
	new:    `		c.joined.First = false`,
	caught: []test{{pkg: "internal/engine", name: "TestNearestOfAnUncertainJoinIsNotReturned"}},
}, {
	name: "follower-ignores-own-removal", promise: "P8",
	what: "A waiter whose own entry was deleted is not notified, and waits for others.",
	file: "internal/engine/read.go",
	old:  `		cancel(ownWatchEnded{s.Await(queued, queue, own)})`,
	new: `		if err := s.Await(queued, queue, own); err != nil {
			cancel(ownWatchEnded{err})
		}`,
	caught: []test{
		{pkg: "recipes", name: "TestRemovedFollowerFails"},
		{pkg: "semaphore", name: "TestRemovedWaiterForPermitsFails"},
	},
}, {
	name: "handoff-not-kept", promise: "P6",
	what:   "A service in memory does not keep a handoff for later followers: they read the queue needlessly.",
	file:   "coordinator/memory/queue.go",
	old:    `		q.passed = e.Key`,
	new:    `		q.passed = ""`,
	caught: []test{{pkg: "coordinator/memory", name: "TestFewHintsAreSomeOfThem"}},
}, {
	name: "waits-without-a-session", promise: "P8",
	what: "A waiter whose session is lost continues to wait.",
	file: "internal/engine/request.go",
	old: `	bound, stop := patience.Bind(ctx, s.requests)
	defer stop()
	err := s.retry(bound`,
	new: `	bound, stop := patience.Bind(ctx, ctx)
	defer stop()
	err := s.retry(bound`,
	caught: []test{simulated("")},
}, {
	name: "clean-up-tried-once", promise: "P4",
	what:   "Clean-up in the background is tried once.",
	file:   "internal/engine/leave.go",
	old:    `			if err == nil || s.ctx.Err() != nil {`,
	new:    `			{`,
	caught: []test{{pkg: "internal/engine", name: "TestRefusedLeaveIsTriedUntilItIsAllowed"}},
}, {
	name: "ended-context-releases-nothing", promise: "P4",
	what:   "A release with an ended context sends no request.",
	file:   "internal/engine/request.go",
	old:    `	if ctx.Done() == nil {`,
	new:    `	if ctx.Done() == nil || ctx.Err() != nil {`,
	caught: []test{{pkg: "recipes", name: "TestHoldOutlivesTheBoundOfItsWait"}},
}, {
	name: "own-context-releases-nothing", promise: "P4",
	what:   "A release with the hold's own context ends with that context, before its request.",
	file:   "internal/engine/request.go",
	old:    `		if cause == ErrReleased || cause == ErrClosed {`,
	new:    `		if cause == ErrClosed {`,
	caught: []test{{pkg: "recipes", name: "TestReleaseWithTheContextOfTheHold"}},
}, {
	name: "downgrade-with-a-gap", promise: "P1",
	what: "A conversion leaves the queue and joins again at its end.",
	file: "internal/engine/change.go",
	old:  `		p, err := s.can.Converter.Convert(ctx, queue, own, mode, value)`,
	new: `		err := s.driver.Leave(ctx, queue, own.Place)
		j, _ := s.driver.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		p := j.Place`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestNoWriteBetweenADowngradedWriteAndItsRead"}},
}}
