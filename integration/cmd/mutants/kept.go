package main

// ofKept are mutations of the turns that a process keeps.
var ofKept = []mutation{{
	name: "kept-gate-opens-again", promise: "P1",
	what: "A turn that another client has asked for takes callers again, once its local queue is empty.",
	file: "recipes/kept_gate.go",
	old:  "\t\tt.shut()\n\t}\n\tk.mu.Unlock()\n\tt.passOnIfIdle(t.session.Context())",
	new:  "\t\tt.closed = true\n\t}\n\tk.mu.Unlock()\n\tt.passOnIfIdle(t.session.Context())",
	caught: []test{
		{pkg: "recipes", name: "TestNobodyIsOvertakenByLaterCallers"},
	},
}, {
	name: "kept-line-is-not-served", promise: "P1",
	what:   "A turn that another client has asked for is passed on at the next release, in front of callers that came before.",
	file:   "recipes/kept_gate.go",
	old:    `		return time.Since(t.asked) >= max(servedFor, 2*t.latest)`,
	new:    `		return true`,
	caught: []test{{pkg: "recipes", name: "TestNobodyIsOvertakenByLaterCallers"}, {pkg: "recipes", name: "TestLineIsServedForALimitedTime"}},
}, {
	name: "kept-line-is-served-for-ever", promise: "P8",
	what:   "The local queue of a turn is served to its end, however long another client waits.",
	file:   "recipes/kept_gate.go",
	old:    `		return time.Since(t.asked) >= max(servedFor, 2*t.latest)`,
	new:    `		return false`,
	caught: []test{{pkg: "recipes", name: "TestLineIsServedForALimitedTime"}},
}, {
	name: "kept-line-has-one-hold", promise: "P1",
	what:   "The bound on the local queue does not count the length of a hold.",
	file:   "recipes/kept_gate.go",
	old:    `		return time.Since(t.asked) >= max(servedFor, 2*t.latest)`,
	new:    `		return time.Since(t.asked) >= servedFor`,
	caught: []test{{pkg: "recipes", name: "TestLineIsServedForALimitedTime"}},
}, {
	name: "kept-line-loses-its-order", promise: "P1",
	what:   "Callers that a turn sends back to the queue wait behind those that came later.",
	file:   "recipes/kept_join.go",
	old:    `	k.next = append(again, k.next...)`,
	new:    `	k.next = append(k.next, again...)`,
	caught: []test{{pkg: "recipes", name: "TestLineIsServedForALimitedTime"}},
}, {
	name: "kept-gate-is-ignored-in-a-hold", promise: "P1",
	what: "A turn that was asked for while a caller holds stays open for later callers.",
	file: "recipes/kept_gate.go",
	old: `	if !t.closed {
		t.asked`,
	new: `	if !t.closed && !t.busy {
		t.asked`,
	caught: []test{{pkg: "recipes", name: "TestNobodyIsOvertakenByLaterCallers"}},
}, {
	name: "kept-idle-turn-is-not-given", promise: "P5",
	what: "An idle turn that another client asks for is kept for its time.",
	file: "recipes/kept_gate.go",
	old: `	idle := !t.busy && !t.isLost
	if idle {`,
	new: `	idle := !t.busy && !t.isLost && time.Since(t.idleSince) >= t.queue.retain
	if idle {`,
	caught: []test{{pkg: "recipes", name: "TestKeptTurnIsPassedOnAtOnce"}},
}, {
	name: "kept-for-a-shortest-time", promise: "P8",
	what:   "A kept turn is not watched before it has been idle for some milliseconds: others wait for nothing.",
	file:   "recipes/kept_gate.go",
	old:    `		if t.awaitBehind(t.ctx, anyone) {`,
	new:    `		if time.Sleep(5 * time.Millisecond); t.awaitBehind(t.ctx, anyone) {`,
	caught: []test{{pkg: "recipes", name: "TestKeptTurnIsPassedOnAtOnce"}},
}, {
	name: "kept-watch-from-the-lock-on", promise: "P6",
	what:   "Each lock begins the watch, also one that is neither kept nor handed over within the process.",
	file:   "recipes/kept.go",
	old:    "\tt.readIfDue()\n\tkeeper.mu.Unlock()",
	new:    "\tt.watch()\n\tkeeper.mu.Unlock()",
	caught: []test{{pkg: "recipes", name: "TestSingleShortHoldCostsNoWatch"}},
}, {
	name: "kept-without-safety-net", promise: "P5",
	what:   "A turn that serves callers of its process relies on its watch alone.",
	file:   "recipes/kept_gate.go",
	old:    `	if !t.watched || t.closed || !t.readIsDue(&t.lastRead) {`,
	new:    `	if t.watched || t.closed || !t.readIsDue(&t.lastRead) {`,
	caught: []test{{pkg: "recipes", name: "TestSilentWatchDoesNotStarveOthers"}},
}, {
	name: "kept-reads-at-each-lock", promise: "P6",
	what:   "A turn reads the queue at each lock of its process.",
	file:   "recipes/kept_gate.go",
	old:    `	if !t.watched || t.closed || !t.readIsDue(&t.lastRead) {`,
	new:    `	if !t.watched || t.closed {`,
	caught: []test{{pkg: "recipes", name: "TestRelockOfAKeptTurnSendsNoRequest"}},
}, {
	name: "kept-names-bounce", promise: "P6",
	what:   "A turn that was asked for before it was used again is kept the next time.",
	file:   "recipes/kept_gate.go",
	old:    `		k.waste(t.served == 1 && !t.busy)`,
	new:    `		k.waste(false)`,
	caught: []test{{pkg: "recipes", name: "TestNamesThatBounceAreNotKept"}, {pkg: "mutex", name: "TestClientsThatLockInTurnPayNothing"}},
}, {
	name: "kept-pause-does-not-double", promise: "P6",
	what:   "The time for which a name that bounces is not kept stays 30 seconds.",
	file:   "recipes/kept_gate.go",
	old:    `	k.pause = min(max(2*k.pause, firstPause), lastPause)`,
	new:    `	k.pause = firstPause`,
	caught: []test{{pkg: "recipes", name: "TestNamesThatBounceAreNotKept"}},
}, {
	name: "kept-pause-has-no-end", promise: "P6",
	what:   "The time for which a name that bounces is not kept doubles without a bound.",
	file:   "recipes/kept_gate.go",
	old:    `	k.pause = min(max(2*k.pause, firstPause), lastPause)`,
	new:    `	k.pause = max(2*k.pause, firstPause)`,
	caught: []test{{pkg: "recipes", name: "TestNamesThatBounceAreNotKept"}},
}, {
	name: "kept-pause-is-never-forgotten", promise: "P6",
	what: "A turn that has served a second caller does not end the doubling.",
	file: "recipes/kept_gate.go",
	old: `		k.pause, k.until = 0, time.Time{}
		return`,
	new:    `		return`,
	caught: []test{{pkg: "recipes", name: "TestNamesThatBounceAreNotKept"}},
}, {
	name: "kept-bouncing-name-has-turns", promise: "P6",
	what:   "While a name is not kept, a single caller joins in another goroutine, for others that do not come.",
	file:   "recipes/keeper.go",
	old:    `	if k.goesAlone() {`,
	new:    `	if false && k.goesAlone() {`,
	caught: []test{{pkg: "recipes", name: "TestNameThatBouncesCostsWhatItCostsWithoutTheOption"}, {pkg: "recipes", name: "TestCallerThatGoesAloneIsNotAsked"}},
}, {
	name: "kept-bouncing-name-is-not-shared", promise: "P6",
	what:   "While a name is not kept, each caller has an entry of its own behind one that holds.",
	file:   "recipes/keeper.go",
	old:    `		k.alone != nil && !k.alone.over() {`,
	new:    `		false {`,
	caught: []test{{pkg: "recipes", name: "TestCallersShareAnEntryBehindOneThatGoesAlone"}},
}, {
	name: "kept-bouncing-name-is-not-shared-in-the-queue", promise: "P6",
	what:   "While a name is not kept, each caller has an entry of its own behind one that waits.",
	file:   "recipes/keeper.go",
	old:    `	k.joinsAlone = true`,
	new:    `	k.joinsAlone = false`,
	caught: []test{{pkg: "recipes", name: "TestCallersShareAnEntryBehindOneThatGoesAlone"}},
}, {
	name: "kept-try-never-asks", promise: "P8",
	what:   "A Try of another client fails for as long as an idle turn is kept.",
	file:   "recipes/try.go",
	old:    `	return ok && a.Try && a.exclusive() && e.alone && e.Holder.Retains`,
	new:    `	return ok && e.alone && false`,
	caught: []test{{pkg: "recipes", name: "TestTryOfAnotherClientGetsAnIdleTurn"}},
}, {
	name: "kept-try-asks-behind-others", promise: "P8",
	what:   "A Try waits behind a contender that waits already.",
	file:   "recipes/try.go",
	old:    `	return ok && a.Try && a.exclusive() && e.alone && e.Holder.Retains`,
	new:    `	return ok && a.Try && a.exclusive() && e.Holder.Retains`,
	caught: []test{{pkg: "recipes", name: "TestTryDoesNotAskBehindAnother"}},
}, {
	name: "kept-try-asks-every-holder", promise: "P8",
	what:   "A Try waits for a holder that does not keep its turns.",
	file:   "recipes/try.go",
	old:    `	return ok && a.Try && a.exclusive() && e.alone && e.Holder.Retains`,
	new:    `	return ok && a.Try && a.exclusive() && e.alone`,
	caught: []test{{pkg: "recipes", name: "TestTryDoesNotAskAHolderThatKeepsNothing"}},
}, {
	name: "kept-try-waits", promise: "P8",
	what:   "A Try that asks for a turn in use waits until it is passed on.",
	file:   "recipes/try.go",
	old:    `	bound, cancel := context.WithTimeout(ctx, askTime)`,
	new:    `	bound, cancel := context.WithTimeout(ctx, 3600*askTime)`,
	caught: []test{{pkg: "recipes", name: "TestTryOfAnotherClientGivesUpSoon"}},
}, {
	name: "kept-try-waits-in-line", promise: "P8",
	what:   "A Try waits in the local queue of its process.",
	file:   "recipes/keeper.go",
	old:    `	case turn != nil && request.Try:`,
	new:    `	case turn != nil && turn.closed && request.Try:`,
	caught: []test{{pkg: "recipes", name: "TestTryOfAnotherClientGivesUpSoon"}},
}, {
	name: "kept-lost-idle-turn-is-a-lost-hold", promise: "P8",
	what:   "The loss of an idle turn is reported as that of its latest hold.",
	file:   "recipes/kept.go",
	old:    `		t.grant = nil // a loss from here on is none of this caller`,
	new:    `		_ = t.grant`,
	caught: []test{{pkg: "recipes", name: "TestIdleTurnThatIsLostIsNoLossOfAHold"}, {pkg: "recipes", name: "TestRemovedIdleTurnIsLeft"}},
}, {
	name: "kept-granted-while-suspended", promise: "P2",
	what:   "A turn is given to a second caller although the service does not confirm the session.",
	file:   "recipes/kept.go",
	old:    `	return t.served == 0 || t.connected()`,
	new:    `	return true`,
	caught: []test{{pkg: "recipes", name: "TestNoGrantOfAKeptTurnWhileTheSessionIsSuspended"}},
}, {
	name: "kept-first-grant-needs-a-renewal", promise: "P8",
	what:   "A turn that was just won is not given to its first caller while the session is suspended.",
	file:   "recipes/kept.go",
	old:    `	return t.served == 0 || t.connected()`,
	new:    `	return t.connected()`,
	caught: []test{{pkg: "recipes", name: "TestTurnThatIsWonWhileTheSessionIsSuspendedIsGranted"}},
}, {
	name: "kept-granted-without-the-clock", promise: "P2",
	what: "A turn is given to a caller without a reading of the clock.",
	file: "recipes/kept.go",
	old: `	if t.err(ctx) != nil {
		return false
	}
	return t.served == 0`,
	new: `	if t.turn.ctx.Err() != nil {
		return false
	}
	return t.served == 0`,
	caught: []test{{pkg: "internal/engine", name: "TestKeptTurnIsNotGrantedAfterASleep"}},
}, {
	name: "kept-close-forgets-idle-turns", promise: "P4",
	what:   "Close leaves idle turns to the end of the session.",
	file:   "recipes/kept_gate.go",
	old:    `	t.stopOnClose = t.session.OnClose(t.passOnIfIdle)`,
	new:    `	_ = t.session.OnClose`,
	caught: []test{{pkg: "recipes", name: "TestCloseGivesIdleTurnsUpFirst"}},
}, {
	name: "kept-context-outlives-its-hold", promise: "P2",
	what:   "All holds of a turn have one context, which ends with the turn.",
	file:   "recipes/grant.go",
	old:    `	case level.count > 0 || g.turn.many != nil:`,
	new:    `	case level.count > 0:`,
	caught: []test{{pkg: "recipes", name: "TestContextOfAReleasedGrantDoesNotReenterALaterOne"}, simulated("mutex")},
}, {
	name: "kept-late-context-goes-on", promise: "P2",
	what:   "A context that is asked for after the release does not end before the turn does.",
	file:   "recipes/grant.go",
	old:    `		l.cancel(l.over)`,
	new:    `		_ = 0`,
	caught: []test{{pkg: "recipes", name: "TestContextThatIsAskedForLateIsThatOfTheHold"}, {pkg: "recipes", name: "TestContextIsAskedForAtAnyMoment"}},
}, {
	name: "kept-late-context-hides-the-loss", promise: "P8",
	what:   "A context that is asked for after the release of a lost hold has not the cause of the loss.",
	file:   "recipes/grant.go",
	old:    `		l.over = context.Cause(under)`,
	new:    `		l.over = cause`,
	caught: []test{{pkg: "recipes", name: "TestContextThatIsAskedForLateIsThatOfTheHold"}},
}, {
	name: "kept-for-ever", promise: "P8",
	what:   "An idle turn is kept for as long as the session lives.",
	file:   "recipes/kept.go",
	old:    `		t.idle.Reset(t.queue.retain)`,
	new:    `		t.idle.Reset(MaxRetain)`,
	caught: []test{{pkg: "recipes", name: "TestKeptTurnEndsAfterItsTime"}},
}, {
	name: "kept-changed-entry-is-reused", promise: "P8",
	what:   "A turn whose entry was converted or written is given to the next caller.",
	file:   "recipes/kept_gate.go",
	old:    `	case changed, !t.connected():`,
	new:    `	case changed && false, !t.connected():`,
	caught: []test{{pkg: "recipes", name: "TestTurnWhoseEntryHasChangedIsNotKept"}},
}, {
	name: "kept-leader-takes-all-along", promise: "P1",
	what:   "The caller that began a join takes the entry with it when it gives up, with those who share it.",
	file:   "recipes/keeper.go",
	old:    `	others := slices.ContainsFunc(next, func(o *caller) bool { return o != w })`,
	new:    `	others := next[0] != w`,
	caught: []test{{pkg: "recipes", name: "TestCallerThatBeganTheJoinGivesUpAlone"}},
}, {
	name: "kept-last-caller-leaves-its-entry", promise: "P4",
	what:   "A join goes on when its last caller has given up.",
	file:   "recipes/keeper.go",
	old:    `	return !others && !j.cancelled`,
	new:    `	return false && others`,
	caught: []test{{pkg: "recipes", name: "TestLastCallerThatGivesUpLeavesNothing"}},
}, {
	name: "kept-end-of-others", promise: "P8",
	what:   "A caller that came after the last one had given up gets the error of that.",
	file:   "recipes/kept_join.go",
	old:    `(join.cancelled || w.after(left, err))`,
	new:    `w.after(left, err)`,
	caught: []test{{pkg: "recipes", name: "TestCallerThatComesAfterTheLastOneGaveUp"}},
}, {
	name: "shared-loss-from-before-the-call", promise: "P8",
	what:   "A call fails with the loss of a session that had ended before it, since it shares the entry of an earlier call.",
	file:   "recipes/many.go",
	old:    `		!c.began.Before(join.session.Deadline())`,
	new:    `		false`,
	caught: []test{{pkg: "internal/engine", name: "TestCallAfterAPauseGetsNoLossFromBefore"}},
}, {
	name: "kept-note-is-not-cleared", promise: "P8",
	what:   "A kept turn leaves without its note of the lock-delay being cleared.",
	file:   "recipes/kept.go",
	old:    `	t.noted, t.many = a.noted, t`,
	new:    `	t.noted, t.many = 0, t`,
	caught: []test{{pkg: "recipes", name: "TestNoteOfALockDelayLastsAsLongAsTheTurn"}},
}, {
	name: "kept-turn-does-not-hand-over", promise: "P6",
	what:   "A kept turn leaves without a handoff: the next contender reads the queue.",
	file:   "recipes/kept.go",
	old:    `		t.handoff = a.joined.Place`,
	new:    `		_ = a.joined.Place`,
	caught: []test{{pkg: "recipes", name: "TestKeptTurnIsHandedOver"}},
}, {
	name: "kept-without-a-watch", promise: "P8",
	what:   "Turns are kept, and shared, on a service that cannot show other contenders.",
	file:   "recipes/many.go",
	old:    `	return err == nil && s.WatchesQueues()`,
	new:    `	return err == nil && s != nil`,
	caught: []test{{pkg: "recipes", name: "TestNothingIsKeptWithoutAWatch"}, {pkg: "rwlock", name: "TestServiceWithoutAQueueWatchIgnoresTheOption"}},
}, {
	name: "kept-process-is-not-wanted", promise: "P8",
	what:   "Wanted does not notice callers of its own process.",
	file:   "recipes/keeper.go",
	old:    `		turn.tellWanted()`,
	new:    `		_ = turn.tellWanted`,
	caught: []test{{pkg: "recipes", name: "TestHolderOfAKeptTurnIsWantedByItsOwnProcess"}},
}, {
	name: "kept-turn-forgets-a-wake-up", promise: "P5",
	what: "A contender that is seen during a release is forgotten: the turn becomes idle.",
	file: "recipes/kept.go",
	old: `	case t.due():
		t.depart()
		t.session.Go(`,
	new: `	case t.due() && !t.closed:
		t.depart()
		t.session.Go(`,
	caught: []test{{pkg: "recipes", name: "TestContenderSeenDuringAReleaseIsNotForgotten"}},
}, {
	name: "kept-lost-turn-keeps-its-line", promise: "P8",
	what: "The callers that wait for a turn when it is lost wait on.",
	file: "recipes/kept_gate.go",
	old: `	g := t.grant
	t.depart()`,
	new: `	g := t.grant
	t.shut()`,
	caught: []test{{pkg: "recipes", name: "TestIdleTurnThatIsLostIsNoLossOfAHold"}},
}, {
	name: "kept-write-under-way-is-forgotten", promise: "P8",
	what: "A turn is kept although a write of its value is under way.",
	file: "recipes/entry.go",
	old: `	turn.written = true
	shown, place`,
	new:    `	shown, place`,
	caught: []test{{pkg: "recipes", name: "TestTurnWhoseWriteIsUnderWayIsNotKept"}},
}, {
	name: "kept-callers-were-never-queued", promise: "P8",
	what:   "A caller that shares an entry does not say how long it was queued.",
	file:   "recipes/keeper.go",
	old:    `	return k.queue.explain(w.ctx, w.Op, since, err)`,
	new:    `	return k.queue.explain(w.ctx, w.Op, time.Time{}.Add(0*time.Since(since)), err)`,
	caught: []test{{pkg: "recipes", name: "TestCallersOfAKeptTurnSayHowLongTheyWereQueued"}},
}, {
	name: "lock-delay-is-not-waited-for", promise: "P1",
	what:   "A contender that finds the note of a lost holder holds at once.",
	file:   "recipes/delay.go",
	old:    `			case left > 0:`,
	new:    `			case left > time.Hour:`,
	caught: []test{simulated("mutex"), {pkg: "mutex", name: "TestLostHolderIsSucceededAfterTheLockDelay"}},
}, {
	name: "longest-hold-ends-nothing", promise: "P2",
	what: "A hold that lasts too long is reported, and its context does not end.",
	file: "recipes/warnings.go",
	old: `		g.endLevel(&g.top, ErrHeldTooLong)
`,
	new: ``,
	// TestLongestHoldEndsTheContextAndNothingElse would wait for it.
	caught: []test{simulated("mutex")},
}, {
	name: "kept-turn-is-passed-on-in-a-hold", promise: "P1",
	what: "A turn whose hold has lasted too long is given to the next caller of the process.",
	file: "recipes/warnings.go",
	old: `	turn.mu.Unlock()
	g.ends().Run()`,
	new: `	turn.mu.Unlock()
	if kept, ok := turn.many.(*kept); tooLong && ok {
		kept.handOver()
	}
	g.ends().Run()`,
	caught: []test{simulated("mutex")},
}}
