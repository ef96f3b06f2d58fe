package main

// ofMembers are mutations of groups and partitions.
var ofMembers = []mutation{{
	name: "group-join-is-not-announced", promise: "P5",
	what:   "A member that joins or updates its value does not write the record, so observers are not notified.",
	file:   "recipes/group/group.go",
	old:    `		err = g.queue.SetRecord(ctx, now, r.Version)`,
	new:    `		_, _ = now, r`,
	caught: []test{{pkg: "recipes/group", name: "TestMembersAreListedAndObserved"}},
}, {
	name: "group-join-outlasts-its-context", promise: "P8",
	what:   "A failed Join waits for the removal of its entry after its context has ended.",
	file:   "recipes/group/group.go",
	old:    `		if ctx.Err() != nil { // with ctx`,
	new:    `		if false { // with ctx`,
	caught: []test{{pkg: "recipes/group", name: "TestJoinEndsWithItsContext"}},
}, {
	name: "partition-plan-before-signals", promise: "P5",
	what: "A planner signals after it has written the plan: if it dies between, nobody follows the plan.",
	file: "recipes/partition/internal/store/store.go",
	old: `	if err == nil {
		again, err = s.signalAll(ctx, session, c.Me, old, now, inTurn)
	}
	if err == nil && !again {
		_, err = session.SetRecord(ctx, s.plan, text, version)
	}`,
	new: `	if err == nil {
		_, err = session.SetRecord(ctx, s.plan, text, version)
	}
	if err == nil {
		_, err = s.signalAll(ctx, session, c.Me, old, now, true)
	}`,
	caught: []test{{pkg: "recipes/partition", name: "TestWriterDiesAtAnyStep"}},
}, {
	name: "partition-signal-taken-back", promise: "P5",
	what: "A member that is late with a first plan takes the signal of another planner back.",
	file: "recipes/partition/internal/store/store.go",
	old:  `signalText(max(number, signalled(r)))`,
	new:  `signalText(number)`,
	caught: []test{
		{pkg: "recipes/partition/internal/store", name: "TestSlowWriterTakesNoSignalBack"},
		{pkg: "recipes/partition/internal/store", name: "TestLatePlannerOfAFirstPlanTakesNoSignalBack"},
	},
}, {
	name: "partition-signal-read-once", promise: "P5",
	what: "A signalled member reads the plan once: it may not be written yet.",
	file: "recipes/partition/internal/store/store.go",
	old:  `			if now.Number > signalled(r) {`,
	new:  `			if now.Number > 0 {`,
	caught: []test{
		{pkg: "recipes/partition/internal/store", name: "TestListenerFollowsThePlanBeyondTheSignal"},
		{pkg: "recipes/partition", name: "TestMembersJoinLeaveAndDie"},
	},
}, {
	name: "partition-first-plan-signals-nobody", promise: "P5",
	what:   "The first plan after a deletion signals nobody.",
	file:   "recipes/partition/internal/store/store.go",
	old:    `		return false, s.signalSeats(ctx, session)`,
	new:    `		return false, nil`,
	caught: []test{{pkg: "recipes/partition", name: "TestDeletedPlanIsReplaced"}},
}, {
	name: "partition-death-unnoticed", promise: "P5",
	what:   "A member that notices the death of the one that it watches does not plan.",
	file:   "recipes/partition/internal/member/member.go",
	old:    `				notify(m.died)`,
	new:    `				_ = m.died`,
	caught: []test{{pkg: "recipes/partition", name: "TestMembersJoinLeaveAndDie"}},
}, {
	name: "partition-successor-not-signalled", promise: "P5",
	what: "A planner does not signal the member that is to watch another one: a second death is not noticed.",
	file: "recipes/partition/internal/plan/plan.go",
	old: `		if old != nil && (!slices.Equal(old.Shards, m.Shards) ||
			before.Predecessor(m.Token) != p.Predecessor(m.Token)) {`,
	new:    `		if old != nil && !slices.Equal(old.Shards, m.Shards) {`,
	caught: []test{{pkg: "recipes/partition/internal/plan", name: "TestChangedAreTheAffectedMembers"}},
}, {
	name: "partition-leaver-watches", promise: "P5",
	what:   "A member watches one that leaves, and the one before that is watched by nobody.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `		if m := p.Members[(i+n-back)%n]; !m.Leaving {`,
	new:    `		if m := p.Members[(i+n-back)%n]; m.Token != 0 {`,
	caught: []test{{pkg: "recipes/partition", name: "TestDeathWhileItsWatcherLeaves"}},
}, {
	name: "partition-planners-do-not-wait", promise: "P6",
	what: "Planners that compete all plan at once, and signal everybody.",
	file: "recipes/partition/internal/store/store.go",
	old:  `	return s.inTurn(ctx, session, c)`,
	new: `	for again && err == nil || recipes.Overtaken(ctx, err) {
		now, again, err = s.try(ctx, session, c, true)
	}
	return now, err`,
	caught: []test{{pkg: "recipes/partition", name: "TestAllMembersAreReplacedTogether"}},
}, {
	name: "partition-waiting-planner-follows-nothing", promise: "P6",
	what:   "A member that waits for its turn to plan leaves the shards that others plan for it without a holder.",
	file:   "recipes/partition/internal/member/planning.go",
	old:    `	c.Me, c.See = m.token(), m.followMeanwhile`,
	new:    `	c.Me = m.token()`,
	caught: []test{{pkg: "recipes/partition", name: "TestMemberThatWaitsForItsTurnFollowsThePlan"}},
}, {
	name: "partition-rivals-signal-all", promise: "P6",
	what:   "Each of many members that leave together signals all members that get its shards.",
	file:   "recipes/partition/internal/store/store.go",
	old:    `	if !inTurn && len(changed) > fewSignals {`,
	new:    `	if false {`,
	caught: []test{{pkg: "recipes/partition", name: "TestHalfOfALargeFleetLeaves"}},
}, {
	name: "partition-crashes-forgotten", promise: "P8",
	what:   "A member that crashes when it has taken a shard takes the next as soon as before.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `	return min(n, mostCrashes)`,
	new:    `	return 0`,
	caught: []test{{pkg: "recipes/partition", name: "TestMemberThatCrashesAgainAndAgainCostsTwoTTLs"}},
}, {
	name: "partition-crash-takes-the-same-shard", promise: "P8",
	what:   "A member that crashes again and again takes the same shard down each time.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `	at := len(shards) - crashes%len(shards)`,
	new:    `	at := len(shards)`,
	caught: []test{{pkg: "recipes/partition/internal/plan", name: "TestCrashesTakeDifferentShards"}},
}, {
	name: "partition-ready-without-its-shards", promise: "P8",
	what:   "A member is ready before it holds the shards that the plan gives it.",
	file:   "recipes/partition/internal/member/status.go",
	old:    `	return here == planned, `,
	new:    `	return true, `,
	caught: []test{{pkg: "recipes/partition", name: "TestMemberFindsItsShardsAndItsReadiness"}},
}, {
	name: "partition-overrun-is-healthy", promise: "P8",
	what:   "A process is live although work runs on after its drain.",
	file:   "recipes/partition/internal/member/worker.go",
	old:    `		m.Status.overrun(returned)`,
	new:    `		_ = returned`,
	caught: []test{{pkg: "recipes/partition", name: "TestStoppingMemberIsNotReady"}},
}, {
	name: "partition-settling-ignored", promise: "P8",
	what:   "A member that settles takes its whole share at once.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `		if settled && m.Settling > 0 {`,
	new:    `		if settled && false {`,
	caught: []test{{pkg: "recipes/partition", name: "TestMemberTakesItsShareInSteps"}},
}, {
	name: "partition-no-drain", promise: "P1",
	what: "A shard that moves is released before its work has returned.",
	file: "recipes/partition/internal/member/worker.go",
	old: `		over = context.Cause(ctx)
`,
	new: `		over = context.Cause(ctx)
		_ = h.Release(context.WithoutCancel(ctx))
`,
	caught: []test{{pkg: "recipes/partition", name: "TestShardIsDrainedBeforeItMoves"}},
}, {
	name: "partition-follows-any-plan", promise: "P8",
	what:   "A member follows a plan of another number of shards, and its process crashes.",
	file:   "recipes/partition/internal/member/planning.go",
	old:    `	if now.Shards != len(m.Shards) {`,
	new:    `	if false {`,
	caught: []test{{pkg: "recipes/partition", name: "TestPlanOfAnotherPartitionCrashesNobody"}},
}, {
	name: "partition-plans-any-step", promise: "P8",
	what:   "A wish with a negative step gets into the plan, which the members then refuse.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `			if w.Settling != nil && *w.Settling >= 0 {`,
	new:    `			if w.Settling != nil {`,
	caught: []test{{pkg: "recipes/partition/internal/plan", name: "TestWishOfAnotherProgramMakesNoPlanThatIsRefused"}},
}}
