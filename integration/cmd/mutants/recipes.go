package main

// ofRecipes are mutations of the queue and of the admission rules.
var ofRecipes = []mutation{{
	name: "no-recheck", promise: "P1",
	what: "A waiter that is woken takes the name without a look, whatever it was that woke it: the one ahead may have left without ever holding.",
	file: "recipes/attempt.go",
	old: `		if a.wake(); handedOver || err != nil {
			a.first = handedOver
			return err
		}`,
	new: `		a.first = handedOver || a.first
		return err`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestWaiterThatLeavesPromotesNoOther"}},
}, {
	name: "any-leaving-is-a-pass", promise: "P1",
	what: "A follower takes the leaving of the one ahead for a pass, also if that one gave up or was lost.",
	file: "recipes/attempt.go",
	old:  `		if a.wake(); handedOver || err != nil {`,
	new:  `		if handedOver || v.Next || err != nil {`,
	caught: []test{
		simulated("mutex"), {pkg: "recipes", name: "TestWaiterReadsTheQueueWithoutAHandoff"},
		{pkg: "recipes", name: "TestWaiterThatLeavesPromotesNoOther"},
	},
}, {
	name: "try-follows", promise: "P8",
	what:   "A Try that joined behind somebody who came between waits for that one.",
	file:   "recipes/attempt.go",
	old:    `	if a.joined.Nearest == (driver.Place{}) || a.Try || a.Terms != nil {`,
	new:    `	if a.joined.Nearest == (driver.Place{}) || a.Terms != nil {`,
	caught: []test{{pkg: "recipes", name: "TestTryDoesNotFollow"}},
}, {
	name: "glance-at-a-reader", promise: "P5",
	what:   "A reader that sees another directly ahead waits for that one, and not for the writer ahead of both, nor at all if there is none.",
	file:   "recipes/attempt.go",
	old:    `	if v := a.rule([]driver.Place{a.joined.Nearest}); v.Next {`,
	new:    `	if v := (Verdict{Watch: []driver.Place{a.joined.Nearest}, Next: true}); v.Next {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestReaderReadsTheQueueBehindAReader"}},
}, {
	name: "everybody-passes", promise: "P1",
	what:   "Whoever leaves says that it passes, be it the first in the queue or not: a writer comes in behind one of two readers.",
	file:   "recipes/grant.go",
	old:    `	if a.exclusive() && a.first {`,
	new:    `	if a.queue != nil {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestReaderReadsTheQueueBehindAReader"}},
}, {
	name: "semaphores-pass", promise: "P1",
	what:   "The first of several who hold permits says that it passes, as if it were the only one.",
	file:   "recipes/grant.go",
	old:    `	if a.exclusive() && a.first {`,
	new:    `	if (a.exclusive() || a.Terms != nil) && a.first {`,
	caught: []test{simulated("semaphore"), {pkg: "recipes", name: "TestSemaphoresDoNotHandOver"}},
}, {
	name: "readers-pass-as-writers", promise: "P1",
	what:   "A writer that has become a reader passes, although it excludes no reader behind it any more.",
	file:   "recipes/conversion.go",
	old:    `	if g.place == g.handoff { // and was not converted`,
	new:    `	if g.handoff.Key != "" {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestDowngradedWriterDoesNotHandOver"}},
}, {
	name: "semaphores-follow", promise: "P1",
	what:   "One who waits for permits, behind another who does, follows that one, and would take its pass for a grant.",
	file:   "recipes/attempt.go",
	old:    `	case v.Next:`,
	new:    `	case v.Next || !v.Record && len(v.Watch) == 1:`,
	caught: []test{{pkg: "recipes", name: "TestSemaphoresDoNotHandOver"}},
}, {
	name: "key-from-session", promise: "P1",
	what:   "A contender's ID is that of its session: two goroutines of one client are one contender.",
	file:   "recipes/attempt.go",
	old:    `ID: a.session.NewID(a.Terms == nil), Mode: a.Mode`,
	new:    `ID: a.session.ID(), Mode: a.Mode`,
	caught: []test{simulated("mutex"), {pkg: "mutex", name: "TestGoroutinesOfOneClientExcludeEachOther"}},
}, {
	name: "no-last-look", promise: "P1",
	what:   "A grant is handed out although its session has ended while the request was under way.",
	file:   "recipes/attempt.go",
	old:    `		err = a.session.Check(ctx)`,
	new:    `		err = nil`,
	caught: []test{{pkg: "recipes", name: "TestGrantReadAfterAPauseIsRefused"}},
}, {
	name: "no-clean-up", promise: "P4",
	what:   "An attempt that is cancelled, or refused, leaves its entry in the queue.",
	file:   "recipes/attempt.go",
	old:    `		a.session.Abandon(a.queue.id, a.joined.Place)`,
	new:    ``,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestWaitEndsWithTheCauseOfItsContextAndLeavesTheQueue"}},
}, {
	name: "joins-by-any-record", promise: "P1",
	what:   "A contender joins without comparing the limit that it has read with the stored one.",
	file:   "recipes/attempt.go",
	old:    `				Record: a.record, Follows`,
	new:    `				Follows`,
	caught: []test{simulated("semaphore"), {pkg: "recipes", name: "TestTermsThatChangeBeforeTheJoinAreAgreedOnAgain"}},
}, {
	name: "reenters-what-was-lost", promise: "P1",
	what: "The context of a lost hold is entered again.",
	file: "recipes/grant.go",
	old: `	if err := g.err(ctx); err != nil {
		if g.ctx.Err() != nil {
			err = nil
		}
		return nil, err
	}`,
	new: `	if err := g.err(ctx); err != nil && g.ctx.Err() == nil {
		return nil, err
	}`,
	caught: []test{{pkg: "recipes", name: "TestNoReentryRestsOnAnEarlierSession"}},
}, {
	name: "reenters-without-a-look", promise: "P2",
	what: "Whoever re-enters a hold looks at no clock.",
	file: "recipes/grant.go",
	old: `	if err := g.err(ctx); err != nil {
		if g.ctx.Err() != nil {`,
	new: `	if err := context.Cause(g.ctx); err != nil {
		if g.ctx.Err() != nil {`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "leaves-others-without-a-look", promise: "P2",
	what:   "Whoever gives back one handle of several looks at no clock, and is told that all was well.",
	file:   "recipes/hold.go",
	old:    `	if g.session.Ended() == nil && g.leaveOthers(h.level) {`,
	new:    `	if g.leaveOthers(h.level) {`,
	caught: []test{{pkg: "internal/engine", name: "TestLossIsSeenByTheClockBeforeAnyTimerRuns"}},
}, {
	name: "removal-not-told", promise: "P2",
	what: "A holder whose entry somebody has deleted goes on.",
	file: "recipes/grant.go",
	old: `				g.removed()
			}
			return`,
	new: `			}
			return`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestRemovalEndsTheHoldOnly"}},
}, {
	name: "write-outlives-downgrade", promise: "P2",
	what:   "The context of a write lock that is downgraded ends no sooner than the read lock.",
	file:   "recipes/grant.go",
	old:    `		l.end(coordinator.ErrReleased)`,
	new:    ``,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestLeavingTheUpperLevelConvertsTheEntryInOneRequest"}},
}, {
	name: "leaves-before-it-tells", promise: "P2",
	what: "A release removes the entry first, and ends the context of the hold after that.",
	file: "recipes/hold.go",
	old:  `	if !g.over(coordinator.ErrReleased) { // lost`,
	new: `	_ = g.session.Leave(ctx, g.queue.id, g.place)
	if !g.over(coordinator.ErrReleased) { // lost`,
	caught: []test{simulated("mutex"), {pkg: "recipes", name: "TestHoldEndsBeforeItsEntryLeaves"}},
}, {
	name: "second-unlock-releases", promise: "P7",
	what:   "A handle that is unlocked twice counts twice, and gives back what another handle holds.",
	file:   "recipes/hold.go",
	old:    `	if !h.released.CompareAndSwap(false, true) {`,
	new:    `	if h.released.Swap(true) && false {`,
	caught: []test{simulated(""), {pkg: "recipes", name: "TestHandleIsReleasedOnce"}},
}, {
	name: "herd", promise: "P6",
	what:   "Everyone who waits watches the first in the queue, and not the one directly ahead.",
	file:   "recipes/rule.go",
	old:    `ahead[len(ahead)-1:]`,
	new:    `ahead[:1]`,
	caught: []test{{pkg: "recipes", name: "TestReleaseWakesThoseAdmittedAndAtMostOneMore"}},
}, {
	name: "reader-passes-writer", promise: "P1",
	what:   "A reader looks at the first in the queue only, and is admitted past a writer that waits.",
	file:   "recipes/rule.go",
	old:    `		for i := len(ahead) - 1; i >= 0; i-- {`,
	new:    `		for i := min(len(ahead), 1) - 1; i >= 0; i-- {`,
	caught: []test{simulated("rwlock"), {pkg: "recipes", name: "TestRulesAreRightOnEveryShortQueue"}},
}, {
	name: "semaphore-watches-one", promise: "P5",
	what:   "The first who waits for permits watches the nearest holder only, although holders leave in any order.",
	file:   "semaphore/permits.go",
	old:    `		return recipes.Verdict{Watch: ahead, Record: true}`,
	new:    `		return recipes.Verdict{Watch: ahead[max(0, len(ahead)-1):], Record: true}`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestWhicheverHolderLeavesTheHeadIsAdmitted"}},
}, {
	name: "semaphore-watches-nth", promise: "P5",
	what:   "The first who waits for n permits watches the n-th ahead, as if holders left in order.",
	file:   "semaphore/permits.go",
	old:    `		return recipes.Verdict{Watch: ahead, Record: true}`,
	new:    `		return recipes.Verdict{Watch: ahead[max(0, len(ahead)-limit):][:min(1, len(ahead))], Record: true}`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestWhicheverHolderLeavesTheHeadIsAdmitted"}},
}, {
	name: "limit-not-confirmed", promise: "P1",
	what:   "A waiter for permits is admitted by the limit as it was before it slept.",
	file:   "recipes/terms.go",
	old:    `	if !a.stale {`,
	new:    `	if a.stale || !a.stale {`,
	caught: []test{simulated("semaphore"), {pkg: "semaphore", name: "TestLimitRaisedForAMomentIsNotExceededLater"}},
}, {
	name: "those-behind-not-counted", promise: "P1",
	what:   "A waiter whose limit was lowered does not count those behind it that were admitted by the greater one.",
	file:   "recipes/terms.go",
	old:    `	if a.moved && a.Terms.Counts != nil {`,
	new:    `	if false && a.Terms.Counts != nil {`,
	caught: []test{{pkg: "semaphore", name: "TestWaiterCountsHoldersBehindIt"}},
}, {
	name: "observer-goes-back", promise: "P1",
	what:   "An observer that follows with a new session shows a leader who came before the one that it has shown.",
	file:   "recipes/head.go",
	old:    `h.Version == f.shown || h.Version != 0 && h.Token < f.token`,
	new:    `h.Version == f.shown`,
	caught: []test{{pkg: "recipes", name: "TestFollowerShowsNoEarlierHead"}},
}}
