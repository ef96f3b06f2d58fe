package main

// ofSessions are mutations of the session's clock, of its requests and of the
// clean-up.
var ofSessions = []mutation{{
	name: "counts-from-the-answer", promise: "P2",
	what:   "The deadline counts from the moment at which the answer to a renewal came, and not from its sending.",
	file:   "internal/engine/session.go",
	old:    `s.extend(sent)`,
	new:    `s.extend(s.client.now())`,
	caught: []test{simulated("mutex"), {pkg: "internal/engine", name: "TestSessionEndsAtTheClientBeforeTheService"}},
}, {
	name: "no-margin", promise: "P2",
	what:   "The deadline has no margin: a service that counts a little less than the TTL is quicker.",
	file:   "internal/engine/session.go",
	old:    `		margin: ds.Slack() + ds.TTL()/marginsPerTTL,`,
	new:    ``,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestSlackIsTakenOffTheDeadline"}},
}, {
	name: "late-answer-revives", promise: "P2",
	what:   "A renewal that is acknowledged after the deadline brings the session back to life.",
	file:   "internal/engine/session.go",
	old:    `	if s.ctx.Err() != nil || left <= 0 {`,
	new:    `	if s.ctx.Err() != nil {`,
	caught: []test{{pkg: "internal/engine", name: "TestAcknowledgementAfterTheDeadlineRevivesNothing"}},
}, {
	name: "no-look-at-the-clock", promise: "P2",
	what:   "A session is lost when a timer says so, and not as soon as the clock does: after a pause of the process, that is later.",
	file:   "internal/engine/session.go",
	old:    `	return s.ctx.Err() != nil || now.Sub(s.born) >= time.Duration(s.deadline.Load())`,
	new:    `	return s.ctx.Err() != nil`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "sleep-not-asked-about", promise: "P2",
	what:   "After a machine's sleep the service is not asked whether the session is alive.",
	file:   "internal/engine/asleep.go",
	old:    `	return now.wall >= s.wallDeadline.Load()`,
	new:    `	return false`,
	caught: []test{{pkg: "internal/engine", name: "TestHoldLostInASleepIsReported"}},
}, {
	name: "joins-anew", promise: "P4",
	what:   "A join whose reply was lost is repeated under another ID.",
	file:   "internal/engine/join.go",
	old:    `uncertain, c.Again = true, true`,
	new:    `uncertain, c.ID = true, c.ID[1:]+"0"`,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestLostReplyToJoinMakesOneEntry"}},
}, {
	name: "lost-join-not-undone", promise: "P4",
	what: "A join that failed without an answer is not undone.",
	file: "internal/engine/join.go",
	old: `	case uncertain:
		s.Discard(queue, c.ID)
`,
	new:    ``,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestCancelledJoinLeavesNoGhost"}},
}, {
	name: "late-join-not-feared", promise: "P4",
	what: "A join that was sent twice is not forgotten after its entry has left, and a late request makes the entry again.",
	file: "internal/engine/join.go",
	old:  `		s.doubt(c.ID)`,
	new:  ``,
	caught: []test{
		{pkg: "internal/engine", name: "TestJoinThatArrivesAgainAfterTheLeaveLeavesNoGhost"},
		{pkg: "recipes", name: "TestJoinThatArrivesAfterARemovalLeavesNoGhost"},
	},
}, {
	name: "own-removal-ignored", promise: "P1",
	what: "A waiter that finds its own entry gone takes that for an empty queue.",
	file: "internal/engine/read.go",
	old: `			if lost := s.driver.Renew(ctx); lost != nil {
				return lost
			}`,
	new:    `			return nil`,
	caught: []test{simulated(""), {pkg: "semaphore", name: "TestWaiterThatWasRemovedFailsAndOthersContinue"}},
}, {
	name: "nearest-of-another-time", promise: "P1",
	what:   "A join whose reply was lost believes who is said to be nearest, by an answer of a later time.",
	file:   "internal/engine/join.go",
	old:    `		j.First, j.Nearest = false, driver.Place{}`,
	new:    `		j.First = false`,
	caught: []test{{pkg: "internal/engine", name: "TestNearestOfAnUncertainJoinIsNotReturned"}},
}, {
	name: "follower-not-removed", promise: "P8",
	what: "A waiter whose own entry was deleted is not told so, and waits for the one ahead.",
	file: "internal/engine/read.go",
	old:  `			cancel(errOwnGone)`,
	new:  `			return`,
	caught: []test{
		{pkg: "recipes", name: "TestRemovedFollowerFails"}, {pkg: "recipes", name: "TestRemovedFollowerFails"},
	},
}, {
	name: "pass-not-told", promise: "P6",
	what:   "A service in memory keeps no word of a pass for those who follow later: they look, though they need not.",
	file:   "coordinator/memory/queue.go",
	old:    `		q.passed = e.Key`,
	new:    `		q.passed = ""`,
	caught: []test{{pkg: "coordinator/memory", name: "TestFewHintsAreSomeOfThem"}},
}, {
	name: "waits-without-a-session", promise: "P8",
	what: "A waiter whose session is lost goes on waiting.",
	file: "internal/engine/request.go",
	old: `	bound, stop := bind(ctx, s.ctx)
	defer stop()
	err := s.retry(bound`,
	new: `	bound, stop := bind(ctx, ctx)
	defer stop()
	err := s.retry(bound`,
	caught: []test{simulated("")},
}, {
	name: "leaves-once", promise: "P4",
	what:   "Clean-up in the background is tried once.",
	file:   "internal/engine/leave.go",
	old:    `			if err == nil || s.ctx.Err() != nil {`,
	new:    `			{`,
	caught: []test{simulated(""), {pkg: "internal/engine", name: "TestRefusedLeaveIsTriedUntilItIsAllowed"}},
}, {
	name: "dead-context-unlocks-nothing", promise: "P4",
	what:   "A release with a context that is dead already asks nothing of the service.",
	file:   "internal/engine/request.go",
	old:    `	if ctx.Done() == nil {`,
	new:    `	if ctx.Done() == nil || ctx.Err() != nil {`,
	caught: []test{{pkg: "recipes", name: "TestHoldOutlivesTheBoundOfItsWait"}},
}, {
	name: "own-context-unlocks-nothing", promise: "P4",
	what:   "A release with the hold's own context ends with it, before the service was asked.",
	file:   "internal/engine/request.go",
	old:    `		if cause == ErrReleased || cause == ErrClosed {`,
	new:    `		if cause == ErrClosed {`,
	caught: []test{{pkg: "recipes", name: "TestReleaseWithTheContextOfTheHold"}},
}, {
	name: "downgrade-with-a-gap", promise: "P1",
	what: "A conversion leaves the queue and joins it again, at its end.",
	file: "internal/engine/change.go",
	old:  `		p, err := s.can.Converter.Convert(ctx, queue, own, mode, value)`,
	new: `		err := s.driver.Leave(ctx, queue, own.Place)
		j, _ := s.driver.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		p := j.Place`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestNoWriteBetweenADowngradedWriteAndItsRead"}},
}}
