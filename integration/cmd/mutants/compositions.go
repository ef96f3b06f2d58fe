package main

// ofCompositions are mutations of the recipes that are built on the queue.
var ofCompositions = []mutation{{
	name: "set-in-the-given-order", promise: "P8",
	what:   "The members of a set are acquired in the order given to New: callers deadlock.",
	file:   "recipes/multilock/multilock.go",
	old:    `	slices.SortFunc(order, func`,
	new:    `	slices.SortFunc(order[:0], func`,
	caught: []test{{pkg: "recipes/multilock", name: "TestMembersAreAcquiredInOneOrder"}},
}, {
	name: "set-kept-after-a-failure", promise: "P4",
	what: "A set that cannot be acquired keeps the members that it has acquired.",
	file: "recipes/multilock/multilock.go",
	old: `		if !done { // also if an observer panics
			_ = l.Unlock(ctx)`,
	new: `		if !done { // also if an observer panics
			_ = l.Unlock`,
	caught: []test{{pkg: "recipes/multilock", name: "TestTryLockOfATakenNameHoldsNothing"}},
}, {
	name: "set-without-clock-comparison", promise: "P2",
	what: "A set of locks or a quorum does not compare the deadlines of its members.",
	file: "recipes/multilock/internal/held/held.go",
	old: `		default:
			l.check(i, h)
`,
	new: `		default:
`,
	caught: []test{{pkg: "recipes/multilock/quorum", name: "TestErrReadsTheClocks"}},
}, {
	name: "quorum-of-a-minority", promise: "P1",
	what:   "A quorum may need half of the services or fewer: two can be held.",
	file:   "recipes/multilock/quorum/quorum.go",
	old:    `	if need <= m/2 || need > m {`,
	new:    `	if need < 1 || need > m {`,
	caught: []test{{pkg: "recipes/multilock/quorum", name: "TestWrongQuorumsAreRefused"}},
}, {
	name: "quorum-in-the-given-order", promise: "P8",
	what:   "A quorum acquires its members in the order given to New.",
	file:   "recipes/multilock/quorum/acquire.go",
	old:    `cmp.Compare(ids[i], ids[j])`,
	new:    `cmp.Compare(i, j)`,
	caught: []test{{pkg: "recipes/multilock/quorum", name: "TestMembersAreAcquiredInOneOrder"}},
}, {
	name: "quorum-deadline-of-the-latest", promise: "P2",
	what:   "The deadline of a quorum is that of the member that lives longest.",
	file:   "recipes/multilock/internal/held/held.go",
	old:    `	return ends[l.need-1]`,
	new:    `	return ends[0]`,
	caught: []test{{pkg: "recipes/multilock/quorum", name: "TestDeadlineIsThatOfTheNeedThLatestMember"}},
}, {
	name: "quorum-token-of-a-lost-member", promise: "P3",
	what:   "A quorum shows the token of a member that was lost before the grant.",
	file:   "recipes/multilock/internal/held/held.go",
	old:    `	if !l.granted {`,
	new:    `	if false {`,
	caught: []test{{pkg: "recipes/multilock/quorum", name: "TestMemberLostBeforeTheGrantHasNoToken"}},
}, {
	name: "group-waits-for-records-only", promise: "P5",
	what:   "An observer does not watch the entries: a member that dies writes no record.",
	file:   "recipes/group/group.go",
	old:    `	if len(o.seen) == 0 {`,
	new:    `	if len(o.seen) >= 0 {`,
	caught: []test{{pkg: "recipes/group", name: "TestCrashedMemberIsGoneWithinTheTTL"}},
}, {
	name: "group-foreign-members", promise: "P1",
	what:   "Entries of other programs are members.",
	file:   "recipes/group/group.go",
	old:    `		return c.ID == "" || c.Stray != ""`,
	new:    `		return false`,
	caught: []test{{pkg: "recipes/group", name: "TestForeignEntriesAreNoMembers"}},
}, {
	name: "plan-signals-everyone", promise: "P6",
	what:   "Each change of a partition wakes all members.",
	file:   "recipes/partition/internal/store/store.go",
	old:    `	changed := now.Changed(old)`,
	new:    `	changed := now.Members`,
	caught: []test{{pkg: "recipes/partition", name: "TestDeathWakesTheAffectedAndOneMore"}},
}, {
	name: "plan-from-scratch", promise: "P6",
	what:   "A plan ignores who holds the shards, and moves most of them.",
	file:   "recipes/partition/internal/plan/plan.go",
	old:    `old.Seat, slices.Clone(old.Shards),`,
	new:    `old.Seat, nil,`,
	caught: []test{{pkg: "recipes/partition/internal/plan", name: "TestPlansMoveTheFewestShards"}},
}, {
	name: "addition-repeated", promise: "P8",
	what:   "A counter computes again after a lost reply: the addition is applied twice.",
	file:   "recipes/counter/internal/register/write.go",
	old:    `	u.batch.doubt = send //`,
	new:    `	u.batch.doubt = false //`,
	caught: []test{{pkg: "recipes/counter", name: "TestLostReplies"}, {pkg: "recipes/counter", name: "TestCallsAreLinearizable"}},
}, {
	name: "writer-kept-in-doubt", promise: "P8",
	what:   "A counter writes on under the ID of a write whose fate is unknown, and may take that one for a later one.",
	file:   "recipes/counter/internal/register/batch.go",
	old:    `r.wrote, r.doubt = none, false`,
	new:    `r.doubt = false`,
	caught: []test{{pkg: "recipes/counter", name: "TestLateWriteIsNotTakenForALaterOne"}},
}, {
	name: "counter-read-at-a-lagging-member", promise: "P1",
	what:   "A counter's value is read at a member that has not applied earlier writes.",
	file:   "recipes/counter/internal/register/register.go",
	old:    `	s, err := r.read(ctx, true)`,
	new:    `	s, err := r.read(ctx, false)`,
	caught: []test{{pkg: "recipes/counter", name: "TestCallsAreLinearizable"}},
}, {
	name: "blocks-overlap", promise: "P1",
	what:   "A block of numbers begins with the last number of the block before.",
	file:   "recipes/counter/ids.go",
	old:    `block{last - i.size + 1, i.size}`,
	new:    `block{last - i.size, i.size}`,
	caught: []test{{pkg: "recipes/counter", name: "TestIDsAreUnique"}},
}, {
	name: "waiter-misses-the-opening", promise: "P5",
	what:   "A waiter at a barrier that was opened and closed again waits on.",
	file:   "recipes/barrier/barrier.go",
	old:    `first.Set && s.Changes <= first.Changes;`,
	new:    `s.Set;`,
	caught: []test{{pkg: "recipes/barrier", name: "TestOpeningIsNoticedAfterALostSession"}},
}, {
	name: "earlier-round-counts", promise: "P1",
	what:   "The entry of an earlier round counts as a member of the next round of a double barrier.",
	file:   "recipes/barrier/double/internal/round/round.go",
	old:    `c.Token <= s.Last || `,
	new:    ``,
	caught: []test{{pkg: "recipes/barrier/double", name: "TestEntryOfAnEarlierRoundDoesNotCount"}},
}, {
	name: "dead-member-not-reported", promise: "P2",
	what:   "A round of a double barrier that has lost a member ends as if all had left.",
	file:   "recipes/barrier/double/member.go",
	old:    `s.End(lost), version)`,
	new:    `s.End(nil), version)`,
	caught: []test{{pkg: "recipes/barrier/double", name: "TestMemberThatDiesInsideIsReported"}},
}}
