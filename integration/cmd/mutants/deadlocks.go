package main

// ofDeadlocks are mutations of the holds that entries show, and of the search
// for contenders that wait for each other.
var ofDeadlocks = []mutation{{
	name: "deadlock-released-holds-are-shown", promise: "P8",
	what:   "An entry shows holds of its caller's context that were released.",
	file:   "recipes/grant.go",
	old:    `	if !over {`,
	new:    `	if !over || true {`,
	caught: []test{{pkg: "recipes", name: "TestEntryShowsTheHoldsOfItsContext"}},
}, {
	name: "deadlock-set-hides-its-members", promise: "P8",
	what:   "A set that waits for a member does not show those that it holds.",
	file:   "recipes/multilock/internal/held/context.go",
	old:    `	if key == (engine.OuterKey{}) && c.clocks || key == (engine.HolderKey{}) {`,
	new:    `	if (key == (engine.OuterKey{}) || key == (engine.HolderKey{})) && c.clocks {`,
	caught: []test{{pkg: "recipes", name: "TestWaitingSetShowsTheMembersThatItHolds"}},
}, {
	name: "deadlock-not-confirmed", promise: "P8",
	what: "A cycle is reported whose parts were read one after the other, and perhaps never were there at one moment.",
	file: "recipes/chain.go",
	old:  `	s.read, s.left = map[site][]driver.Entry{}, chainReads`,
	new: `	if len(cycle) > 0 {
		return true
	}`,
	caught: []test{{pkg: "recipes", name: "TestReadsOfTheConfirmationAreFresh"}},
}, {
	name: "deadlock-confirmed-by-stale-reads", promise: "P8",
	what:   "The second reads of a cycle may show a moment before the first ones: nothing asks the service to be up to date.",
	file:   "recipes/chain.go",
	old:    `		if fresh[w.at.session] {`,
	new:    `		if len(cycle) > 0 || fresh[w.at.session] {`,
	caught: []test{{pkg: "recipes", name: "TestReadsOfTheConfirmationAreFresh"}},
}, {
	name: "deadlock-other-service-not-asked", promise: "P8",
	what:   "A hold of another service is looked for at the waiter's own.",
	file:   "recipes/chain.go",
	old:    `	case service == "":`,
	new:    `	case service == "" || from.from != nil:`,
	caught: []test{{pkg: "recipes", name: "TestDeadlockIsReportedByEachOfItsParties"}},
}, {
	name: "deadlock-all-give-up", promise: "P8",
	what:   "Each contender of a deadlock gives up that may, and not the youngest of them first.",
	file:   "recipes/chain.go",
	old:    `			before++`,
	new:    `			before += 0`,
	caught: []test{{pkg: "recipes", name: "TestYoungestOfADeadlockGivesUp"}},
}, {
	name: "deadlock-only-the-youngest-gives-up", promise: "P8",
	what:   "If the youngest contender of a deadlock cannot see it, nobody gives up.",
	file:   "recipes/deadlock.go",
	old:    `		if before < 0 {`,
	new:    `		if before != 0 {`,
	caught: []test{{pkg: "recipes", name: "TestDeadlocksInRandomWorlds"}},
}, {
	name: "deadlock-searches-no-more", promise: "P8",
	what:   "A contender whose deadlock was resolved by another one looks for the next deadlock after a pause only.",
	file:   "recipes/deadlock.go",
	old:    "			return true\n		}\n	}\n	return false",
	new:    "			return true\n		}\n		return false\n	}\n	return false",
	caught: []test{{pkg: "recipes", name: "TestSecondDeadlockOfAContenderIsResolvedSoonAfterTheFirst"}},
}, {
	name: "deadlock-option-ignored", promise: "P8",
	what:   "A contender without the option may give up.",
	file:   "recipes/under.go",
	old:    `Yields: q.yields && waits != 0}`,
	new:    `Yields: waits != 0}`,
	caught: []test{{pkg: "recipes", name: "TestOnlyContendersWithTheOptionGiveUp"}},
}, {
	name: "deadlock-search-without-pause", promise: "P6",
	what:   "Each contender that holds something searches every ten seconds for as long as it waits.",
	file:   "recipes/deadlock.go",
	old:    `pause = min(2*pause, longestPause)`,
	new:    `pause = min(pause, longestPause)`,
	caught: []test{{pkg: "recipes", name: "TestSearchesAreBounded"}},
}, {
	name: "deadlock-search-without-end", promise: "P6",
	what:   "A search reads as many queues as there are.",
	file:   "recipes/chain.go",
	old:    `		s.left--`,
	new:    ``,
	caught: []test{{pkg: "recipes", name: "TestSearchReadsSixteenQueuesAtMost"}},
}}
