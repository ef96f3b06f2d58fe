package main

// ofSharedReads are mutations of the turns that the readers of a client share.
var ofSharedReads = []mutation{{
	name: "shared-gate-stays-open", promise: "P1",
	what:   "Readers share an entry although a writer was seen behind it: a stream of readers of one client starves it.",
	file:   "recipes/shared_gate.go",
	old:    "	defer t.sharer.mu.Unlock()\n	t.shut()\n}",
	new:    "	defer t.sharer.mu.Unlock()\n}",
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestReaderQueuesBehindAWriterThatWasSeen"}, {pkg: "rwlock", name: "TestStreamOfReadersDoesNotStarveAWriter"}},
}, {
	name: "shared-gate-ignores-own-writers", promise: "P1",
	what:   "A writer closes the gate of its own client's readers only when the watch shows it.",
	file:   "recipes/sharer.go",
	old:    `	if s.open != nil && s.keepsOut(attempt.Mode) {`,
	new:    `	if s.open != nil && s.keepsOut(attempt.Mode) && s.queue == nil {`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestWriterOfTheSameClientIsNotOvertaken"}},
}, {
	name: "shared-silent-watch-starves", promise: "P5",
	what:   "A turn that readers share never reads the queue besides its watch, which may be silent.",
	file:   "recipes/shared_gate.go",
	old:    `	if t.unwatch == nil || t.closed || !t.readIsDue(&t.lastRead) {`,
	new:    `	if t.unwatch != nil || t.closed || !t.readIsDue(&t.lastRead) {`,
	caught: []test{{pkg: "rwlock", name: "TestStreamOfReadersDoesNotStarveAWriter"}},
}, {
	name: "shared-entry-leaves-with-a-reader", promise: "P1",
	what:   "The entry that readers share leaves with the first of them that unlocks.",
	file:   "recipes/shared.go",
	old:    `	case t.users == 0:`,
	new:    `	case t.users >= 0:`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestReadersOfAClientShareOneEntry"}},
}, {
	name: "shared-entry-stays", promise: "P4",
	what:   "The entry that readers share stays when the last of them unlocks.",
	file:   "recipes/shared.go",
	old:    `	case t.users == 0:`,
	new:    `	case t.users < 0:`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestReadersOfAClientShareOneEntry"}},
}, {
	name: "shared-grant-while-suspended", promise: "P2",
	what:   "A reader gets an entry of its client while the session is suspended.",
	file:   "recipes/shared.go",
	old:    `	return first || t.connected()`,
	new:    `	return first || true`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestNoReaderJoinsATurnWhileTheSessionIsSuspended"}},
}, {
	name: "shared-reader-outlives-the-loss", promise: "P2",
	what: "The contexts of the second and later readers of an entry do not end when it is lost.",
	file: "recipes/grant.go",
	old:  `	return g.turn.ctx`,
	new: `	if t, ok := g.turn.many.(*shared); ok && len(t.grants) > 1 {
		return context.WithoutCancel(g.turn.ctx)
	}
	return g.turn.ctx`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestLossEndsAllReadersOfATurn"}},
}, {
	name: "shared-work-outlives-the-loss", promise: "P2",
	what:   "The work of a reader that shares an entry goes on when the entry is lost.",
	file:   "internal/engine/ends.go",
	old:    `	e.once.Do(func() { e.unhook = e.outer.Add(e.of, e.Run) })`,
	new:    `	e.once.Do(func() {})`,
	caught: []test{{pkg: "recipes", name: "TestWorkOfSharedReadersEndsInTime"}},
}, {
	name: "shared-join-ends-with-its-first-caller", promise: "P4",
	what:   "When the reader that began a join gives up, the entry leaves that others wait for.",
	file:   "recipes/shared.go",
	old:    `	case len(t.waiting) == 1:`,
	new:    `	case at == 0:`,
	caught: []test{simulated("rwlock"), {pkg: "rwlock", name: "TestReaderThatBeganTheJoinGivesUpAlone"}},
}}
