package main

// ofRecipes are mutations of the queue and of the admission rules.
var ofRecipes = []mutation{{
	name: "no-recheck", promise: "P1",
	what: "A woken waiter acquires without reading the queue, whatever woke it: its predecessor may have left without ever holding.",
	file: "recipes/follow.go",
	old: `		if f.noteWake(); handedOver || err != nil {
			f.first, f.told = handedOver, handedOver
			return err
		}`,
	new: `		f.first = handedOver || f.first
		return err`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestWaiterThatLeavesPromotesNoOther"}},
}, {
	name: "any-removal-is-a-handoff", promise: "P1",
	what: "A follower treats its predecessor's leaving as a handoff, even if the predecessor gave up or was lost.",
	file: "recipes/follow.go",
	old:  `		if f.noteWake(); handedOver || err != nil {`,
	new:  `		if handedOver || v.Next || err != nil {`,
	caught: []test{
		simulated("mutex"), {pkg: "recipes", name: "TestWaiterReadsTheQueueWithoutAHandoff"},
		{pkg: "recipes", name: "TestWaiterThatLeavesPromotesNoOther"},
	},
}, {
	name: "try-follows", promise: "P8",
	what:   "A Try that joined behind a concurrent contender waits for it.",
	file:   "recipes/follow.go",
	old:    `	if f.joined.Nearest == (driver.Place{}) || f.Try {`,
	new:    `	if f.joined.Nearest == (driver.Place{}) {`,
	caught: []test{{pkg: "recipes", name: "TestTryDoesNotFollow"}},
}, {
	name: "reader-follows-a-reader", promise: "P5",
	what:   "A reader directly behind another reader waits for that reader instead of for the writer ahead of both, if any.",
	file:   "recipes/follow.go",
	old:    `	if v := f.rule([]driver.Place{f.joined.Nearest}); v.Next {`,
	new:    `	if v := (Verdict{Watch: []driver.Place{f.joined.Nearest}, Next: true}); v.Next {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestReaderReadsTheQueueBehindAReader"}},
}, {
	name: "every-release-hands-off", promise: "P1",
	what:   "Every contender leaves with a handoff, whether it is first in the queue or not: a writer is admitted behind one of two readers.",
	file:   "recipes/win.go",
	old:    `	if a.exclusive() && a.first {`,
	new:    `	if a.queue != nil {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestReaderReadsTheQueueBehindAReader"}},
}, {
	name: "semaphores-hand-off", promise: "P1",
	what:   "The first of several permit holders leaves with a handoff, as if it were the only holder.",
	file:   "recipes/win.go",
	old:    `	if a.exclusive() && a.first {`,
	new:    `	if (a.exclusive() || a.Terms != nil) && a.first {`,
	caught: []test{simulated("semaphore"), {pkg: "recipes", name: "TestSemaphoresDoNotHandOver"}},
}, {
	name: "downgraded-writer-hands-off", promise: "P1",
	what:   "A downgraded writer leaves with a handoff, although it no longer excludes the readers behind it.",
	file:   "recipes/turn_pass.go",
	old:    `	handsOver := t.place == t.handoff`,
	new:    `	handsOver := t.handoff.Key != ""`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestDowngradedWriterDoesNotHandOver"}},
}, {
	name: "semaphores-follow", promise: "P1",
	what:   "A waiter for permits follows the waiter ahead of it, and would treat its handoff as a grant.",
	file:   "recipes/attempt.go",
	old:    `	if verdict.Next {`,
	new:    `	if verdict.Next || !verdict.Record && len(verdict.Watch) == 1 {`,
	caught: []test{{pkg: "recipes", name: "TestSemaphoresDoNotHandOver"}},
}, {
	name: "key-from-session", promise: "P1",
	what:   "A contender's ID is its session's: two goroutines of one client are one contender.",
	file:   "recipes/follow.go",
	old:    `ID: f.session.NewID(true), Mode: f.Mode`,
	new:    `ID: f.session.ID(), Mode: f.Mode`,
	caught: []test{simulated("mutex"), {pkg: "mutex", name: "TestGoroutinesOfOneClientExcludeEachOther"}},
}, {
	name: "no-last-session-check", promise: "P1",
	what:   "A grant is returned although its session ended while the request was in flight.",
	file:   "recipes/win.go",
	old:    `		err = a.session.Check(ctx)`,
	new:    `		err = nil`,
	caught: []test{{pkg: "recipes", name: "TestGrantReadAfterAPauseIsRefused"}},
}, {
	name: "no-clean-up", promise: "P4",
	what:   "A cancelled or refused attempt leaves its entry in the queue.",
	file:   "recipes/delay.go",
	old:    `	if !a.mustLeave {`,
	new:    `	if a.mustLeave || !a.mustLeave {`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestWaitEndsWithTheCauseOfItsContextAndLeavesTheQueue"}},
}, {
	name: "joins-by-any-record", promise: "P1",
	what:   "A contender joins without comparing the limit it has read with the stored limit.",
	file:   "recipes/count.go",
	old:    `Value: c.value, Record: c.record}`,
	new:    `Value: c.value}`,
	caught: []test{simulated("semaphore"), {pkg: "recipes", name: "TestTermsThatChangeBeforeTheJoinAreAgreedOnAgain"}},
}, {
	name: "reentry-after-loss", promise: "P1",
	what: "The context of a lost hold allows re-entry.",
	file: "recipes/reenter.go",
	old: `	if err := turn.err(ctx); err != nil {
		if turn.ctx.Err() != nil {
			err = nil
		}
		return nil, err
	}`,
	new: `	if err := turn.err(ctx); err != nil && turn.ctx.Err() == nil {
		return nil, err
	}`,
	caught: []test{{pkg: "recipes", name: "TestNoReentryRestsOnAnEarlierSession"}},
}, {
	name: "reentry-without-clock", promise: "P2",
	what: "Re-entry of a hold does not compare the deadline.",
	file: "recipes/reenter.go",
	old: `	if err := turn.err(ctx); err != nil {
		if turn.ctx.Err() != nil {`,
	new: `	if err := context.Cause(turn.ctx); err != nil {
		if turn.ctx.Err() != nil {`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "partial-release-without-clock", promise: "P2",
	what:   "The release of one of several handles does not compare the deadline, and returns success.",
	file:   "recipes/hold.go",
	old:    `	if turn.session.Ended() == nil && grant.dropUnlessLast(h.level) {`,
	new:    `	if grant.dropUnlessLast(h.level) {`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "refused-watch-hides-removal", promise: "P2",
	what:   "A holder that was once refused the watch of its entry does not watch it any more.",
	file:   "recipes/turn_watch.go",
	old:    `			if refused++; PauseAgain(t.ctx, t.queue, refused) != nil {`,
	new:    `			if refused++; true {`,
	caught: []test{{pkg: "recipes", name: "TestRefusedWatchDoesNotHideARemoval"}},
}, {
	name: "removal-not-noticed", promise: "P2",
	what: "A holder whose entry was deleted continues.",
	file: "recipes/turn_watch.go",
	old: `				t.removed()
			}
			return`,
	new: `			}
			return`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestRemovalEndsTheHoldOnly"}},
}, {
	name: "write-outlives-downgrade", promise: "P2",
	what:   "The context of a downgraded write lock ends only with the read lock.",
	file:   "recipes/grant.go",
	old:    `		g.endLevel(of, coordinator.ErrReleased)`,
	new:    ``,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestLeavingTheUpperLevelConvertsTheEntryInOneRequest"}},
}, {
	name: "release-before-context-end", promise: "P2",
	what: "A release removes the entry before it ends the hold's context.",
	file: "recipes/grant.go",
	old:  `	if !turn.finish(coordinator.ErrReleased) { // lost`,
	new: `	_ = turn.session.Leave(ctx, turn.queue.id, turn.place)
	if !turn.finish(coordinator.ErrReleased) { // lost`,
	caught: []test{simulated("mutex"), {pkg: "recipes", name: "TestHoldEndsBeforeItsEntryLeaves"}},
}, {
	name: "work-ends-in-a-goroutine", promise: "P2",
	what: "A release ends the contexts of work in another goroutine, which may run after the entry has left.",
	file: "recipes/turn.go",
	old: `	t.cancel(cause)
	t.ends.Run()`,
	new: `	t.cancel(cause)
	go t.ends.Run()`,
	caught: []test{simulated("mutex"), {pkg: "recipes", name: "TestContextOfWorkEndsBeforeItsReleaseIsSent"}},
}, {
	name: "session-end-reported-first", promise: "P2",
	what:   "The end of a session is sent to the service before the contexts of work have ended.",
	file:   "internal/engine/session.go",
	old:    `	s.endHolds()`,
	new:    `	go s.endHolds()`,
	caught: []test{simulated("mutex"), {pkg: "recipes", name: "TestContextOfWorkEndsBeforeTheNameIsGivenAway"}},
}, {
	name: "cancelled-note-stays", promise: "P4",
	what:   "A lock that is cancelled while it writes the note of its lock-delay leaves it.",
	file:   "recipes/delay.go",
	old:    `	if !a.mayBeNoted ||`,
	new:    `	if a.mayBeNoted || !a.mayBeNoted ||`,
	caught: []test{{pkg: "mutex", name: "TestCancelledLockLeavesNoNote"}},
}, {
	name: "second-unlock-releases", promise: "P7",
	what:   "A handle that is unlocked twice counts twice, and releases another handle's hold.",
	file:   "recipes/hold.go",
	old:    `	if !h.released.CompareAndSwap(false, true) {`,
	new:    `	if h.released.Swap(true) && false {`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestHandleIsReleasedOnce"}},
}, {
	name: "herd", promise: "P6",
	what:   "Every waiter watches the first entry of the queue instead of its predecessor.",
	file:   "recipes/rule.go",
	old:    `ahead[len(ahead)-1:]`,
	new:    `ahead[:1]`,
	caught: []test{{pkg: "recipes", name: "TestReleaseWakesThoseAdmittedAndAtMostOneMore"}},
}, {
	name: "reader-overtakes-writer", promise: "P1",
	what:   "A reader checks only the first entry of the queue, and is admitted past a waiting writer.",
	file:   "recipes/rule.go",
	old:    `		for i := len(ahead) - 1; i >= 0; i-- {`,
	new:    `		for i := min(len(ahead), 1) - 1; i >= 0; i-- {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestRulesAreRightOnEveryShortQueue"}},
}, {
	name: "semaphore-watches-one", promise: "P5",
	what:   "The first waiter for permits watches only the nearest holder, although holders leave in any order.",
	file:   "semaphore/permits.go",
	old:    `		return recipes.Verdict{Watch: ahead, Record: true}`,
	new:    `		return recipes.Verdict{Watch: ahead[max(0, len(ahead)-1):], Record: true}`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestWhicheverHolderLeavesTheHeadIsAdmitted"}},
}, {
	name: "semaphore-watches-nth", promise: "P5",
	what:   "The first waiter for n permits watches the n-th entry ahead, as if holders left in order.",
	file:   "semaphore/permits.go",
	old:    `		return recipes.Verdict{Watch: ahead, Record: true}`,
	new:    `		return recipes.Verdict{Watch: ahead[max(0, len(ahead)-limit):][:min(1, len(ahead))], Record: true}`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestWhicheverHolderLeavesTheHeadIsAdmitted"}},
}, {
	name: "limit-not-confirmed", promise: "P1",
	what:   "A contender for permits is admitted by the limit that it read before its view of the queue.",
	file:   "recipes/count_watch.go",
	old:    `	if shown == c.record && !c.waited {`,
	new:    `	if shown >= 0 {`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestLimitRaisedForAMomentIsNotExceededLater"}},
}, {
	name: "holders-behind-not-counted", promise: "P1",
	what:   "A waiter whose limit was lowered does not count the holders behind it that were admitted by the higher limit.",
	file:   "recipes/count.go",
	old:    `	if c.moved && c.terms.Counts != nil {`,
	new:    `	if false && c.terms.Counts != nil {`,
	caught: []test{{pkg: "semaphore", name: "TestWaiterCountsHoldersBehindIt"}},
}, {
	name: "observer-goes-back", promise: "P1",
	what:   "An observer with a new session reports a leader older than the last reported one.",
	file:   "recipes/head.go",
	old:    `return h.Version != 0 && h.Token < f.token`,
	new:    `return false`,
	caught: []test{{pkg: "recipes", name: "TestFollowerShowsNoEarlierHead"}},
}}
