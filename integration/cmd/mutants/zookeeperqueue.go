package main

// ofZooKeeperQueues are further mutations of the queues on ZooKeeper.
var ofZooKeeperQueues = []mutation{{
	name: "zookeeper-deletion-is-a-handoff", promise: "P1",
	what:   "The deletion of a successor node admits the follower.",
	file:   "coordinator/zookeeper/follow.go",
	old:    `		return true, passed, err`,
	new:    `		return true, passed || f.near == nil, err`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassReportsAPass"}},
}, {
	name: "zookeeper-any-release-is-a-handoff", promise: "P1",
	what:   "Any release by its session admits the follower.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `err == nil || gone, err == nil && r.pass)`,
	new:    `err == nil || gone, err == nil)`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassWithinASessionReportsAPass"}},
}, {
	name: "zookeeper-handoff-of-what-is-gone", promise: "P1",
	what:   "The release of an entry that an operator has deleted admits the follower of the same session.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `err == nil || gone, err == nil && r.pass)`,
	new:    `err == nil || gone, r.pass)`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassWithinASessionReportsAPass"}},
}, {
	name: "zookeeper-neighbor-is-not-watched", promise: "P5",
	what:   "A follower does not notice that an operator has deleted the entry ahead, which is of its own session.",
	file:   "coordinator/zookeeper/follow.go",
	old:    `	case left, f.its != nil && !f.its.Over(), f.near != nil && f.delay != nil:`,
	new:    `	case left, f.its != nil && !f.its.Over(), f.near != nil:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassWithinASessionReportsAPass"}},
}, {
	name: "zookeeper-pass-is-not-awaited", promise: "P8",
	what:   "A follower that is shown the deletion of an entry of its session does not wait for the reply, and reads the queue.",
	file:   "coordinator/zookeeper/neighbors.go",
	old:    `		if n.left || n.leaving == 0 {`,
	new:    `		if n.left || true {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestWaitersOfASessionHaveOneWatchEach"}},
}, {
	name: "zookeeper-neighbor-of-another-queue", promise: "P1",
	what:   "The numbers of a removed queue of the same name show who is next to whom.",
	file:   "coordinator/zookeeper/neighbors.go",
	old:    `ahead != nil && ahead.made != a.made {`,
	new:    `false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestNumbersThatBeginAnewShowNoNeighbor"}},
}, {
	name: "zookeeper-forgotten-neighbor-stays", promise: "P4",
	what:   "An entry that a conversion or removal without a reply has ended stays in memory after Forget.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `	s.neighbors.forget(queue, id)`,
	new:    ``,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestForgetEndsWhatRepliesHaveNot"}},
}, {
	name: "zookeeper-removed-follower-is-admitted", promise: "P1",
	what:   "A follower whose own entry was removed is admitted by a later handoff.",
	file:   "coordinator/zookeeper/follow.go",
	old:    `	if f.delay == nil && (f.mine == nil`,
	new:    `	if f.delay == nil && !left && (f.mine == nil`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRemovalOfTheOwnEntryComesBeforeAPass"}},
}, {
	name: "zookeeper-follower-does-not-watch-itself", promise: "P1",
	what: "A follower does not notice that its own entry was removed.",
	file: "coordinator/zookeeper/follow.go",
	old: `	case <-late:
		f.delay = nil`,
	new:    `	case <-late:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestWaitersOfASessionHaveOneWatchEach"}},
}, {
	name: "zookeeper-any-successor-node", promise: "P5",
	what:   "A follower waits with the successor node of another queue of the name.",
	file:   "coordinator/zookeeper/follow.go",
	old:    `entryOf(successor, w.Seen.Value); n.Key != ahead.Key {`,
	new:    `entryOf(successor, w.Seen.Value); false && n.Key != ahead.Key {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestSuccessorNodeWithOtherDataIsNotFollowed"}},
}, {
	name: "zookeeper-nearest-after-the-overflow", promise: "P1",
	what:   "An entry with an overflowed number finds its predecessor by the number.",
	file:   "coordinator/zookeeper/handoff.go",
	old:    `if n.overflowed() || n.seq < 2 {`,
	new:    `if false || n.seq < 2 {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestNoSuccessorNodesWhenSequenceNumbersRunOut"}},
}, {
	name: "zookeeper-last-number-is-an-order", promise: "P1",
	what:   "Entries with the last sequence number are ordered by it, although several can have it.",
	file:   "coordinator/zookeeper/names.go",
	old:    `return n.seq < 0 || n.seq == math.MaxInt32`,
	new:    `return n.seq < 0 || n.seq == math.MaxInt32 && false`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestNoSuccessorNodesWhenSequenceNumbersRunOut"}},
}, {
	name: "zookeeper-negative-numbers-are-an-order", promise: "P1",
	what:   "Entries with negative sequence numbers are ordered by them.",
	file:   "coordinator/zookeeper/names.go",
	old:    `return n.seq < 0 || n.seq == math.MaxInt32`,
	new:    `return false || n.seq == math.MaxInt32`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestTokensOrderTheQueueWhenSequenceNumbersRunOut"}},
}, {
	name: "zookeeper-order-of-some-tokens", promise: "P1",
	what: "A queue without sequence numbers is ordered before all tokens are known.",
	file: "coordinator/zookeeper/view.go",
	old: `		if all {
			slices.SortFunc`,
	new: `		if (all || !all) {
			slices.SortFunc`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestConvertedEntryKeepsItsPlaceWhenSequenceNumbersRunOut"}},
}, {
	name: "zookeeper-orphans-stay", promise: "P5",
	what: "A forgotten entry that an operator has deleted leaves its successor node, for which the follower waits.",
	file: "coordinator/zookeeper/view.go",
	old: `	if err == nil && len(mine) == 0 {
		err = s.removeOrphans`,
	new: `	if err == nil && false {
		err = s.removeOrphans`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassReportsAPass"}},
}, {
	name: "zookeeper-gone-entry-wakes-nobody", promise: "P5",
	what:   "A release of an entry that is gone leaves its successor node, for which the follower waits.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `	if gone && r.successor != "" {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestDeletedEntryLeavesNoSuccessorNode"}},
}, {
	name: "zookeeper-orphan-deleted-once", promise: "P5",
	what: "The successor node of an entry that is gone is deleted with one attempt.",
	file: "coordinator/zookeeper/queue.go",
	old: `	if err == nil || errors.Is(err, zk.ErrNoNode) {
		return
	}
	time.AfterFunc`,
	new: `	if err == nil || true {
		return
	}
	time.AfterFunc`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestSuccessorNodeDeletionIsRetried"}},
}, {
	name: "zookeeper-refused-pass-wakes-nobody", promise: "P5",
	what:   "A release whose handoff fails deletes its entry alone, and the follower waits on.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `		case r.pass && !errors.Is(err, zk.ErrNoNode):`,
	new:    `		case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestSuccessorNodeThatCannotBeWrittenIsDeleted"}},
}, {
	name: "zookeeper-forget-does-not-wait", promise: "P4",
	what: "A Forget does not wait for a join of its contender under way.",
	file: "coordinator/zookeeper/internal/nodes/flight.go",
	old: `		if before == nil {
			return f, nil`,
	new: `		if true {
			return f, nil`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOneFlightOfAContenderAtATime"}},
}, {
	name: "zookeeper-request-ends-with-its-call", promise: "P4",
	what: "A Forget does not wait for a request whose caller has gone.",
	file: "coordinator/zookeeper/internal/nodes/flight.go",
	old: `	f.add(1)
	r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) ([]zk.MultiResponse, error) {
		defer f.add(-1)
		return client.Multi(requests...)
	})
	if err != nil {
		f.add(-1)
`,
	new: `	r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) ([]zk.MultiResponse, error) {
		return client.Multi(requests...)
	})
	if err != nil {
`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOneFlightOfAContenderAtATime"}},
}, {
	name: "zookeeper-forget-without-sync", promise: "P4",
	what: "A Forget lists the queue at a server that has not applied the join yet.",
	file: "coordinator/zookeeper/view.go",
	old: `	if err := s.Sync(ctx, s.Path(queue)); err != nil {
		return nil, queueView{}, err
	}
	all, err = s.readQueue`,
	new:    `	all, err = s.readQueue`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestForgetListsTheQueueAfterASync"}},
}, {
	name: "zookeeper-repeated-join-is-first", promise: "P1",
	what:   "A join that finds its entry reports that it is the first.",
	file:   "coordinator/zookeeper/view.go",
	old:    `	first := all.nodes[0].Key == n.Key && len(all.strays) == 0`,
	new:    `	first := true`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinWithUnknownOutcome"}},
}, {
	name: "zookeeper-lone-join-is-not-checked", promise: "P1",
	what: "A contender that wants to be alone keeps an entry behind others.",
	file: "coordinator/zookeeper/queue.go",
	old: `	if !c.Alone || j.First {
		return j, nil`,
	new: `	if true {
		return j, nil`,
	caught: []test{
		{pkg: "coordinator/zookeeper", name: "TestSuccessorNodesAreNoEntries"},
		{pkg: "integration/internal/virtualzk", name: "TestOneOfTwoLoneJoinsThatCrossIsRefused"},
	},
}, {
	name: "zookeeper-record-not-compared", promise: "P1",
	what: "A join does not compare the record's version.",
	file: "coordinator/zookeeper/queue.go",
	old: `	if c.Record != 0 {
		// First`,
	new: `	if false {
		// First`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinChecksTheRecordInTheSameRequest"}},
}, {
	name: "zookeeper-no-join-without-a-successor-node", promise: "P8",
	what:   "A join whose successor node cannot be made fails.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `		if errors.Is(err, errNoSuccessor) {`,
	new:    `		if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinWorksWithoutItsSuccessorNode"}},
}, {
	name: "zookeeper-forget-misses-a-conversion", promise: "P4",
	what: "A Forget does not wait for a conversion of its contender under way.",
	file: "coordinator/zookeeper/entry.go",
	old: `	o, err := s.Multi(ctx, f, ops)
	if err != nil && o.Failed == 3`,
	new: `	o, err := s.Multi(ctx, nil, ops)
	if err != nil && o.Failed == 3`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOneFlightOfAContenderAtATime"}},
}, {
	name: "zookeeper-applied-conversion-is-an-error", promise: "P8",
	what: "A repeated conversion whose first attempt was applied reports that the entry is gone.",
	file: "coordinator/zookeeper/entry.go",
	old: `	if errors.Is(err, zk.ErrNoNode) {
		_, err = s.Stat`,
	new: `	if errors.Is(err, zk.ErrNoNode) && false {
		_, err = s.Stat`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestConversionWithALostReplyIsRepeated"}},
}, {
	name: "zookeeper-conversion-wakes-nobody", promise: "P5",
	what:   "A conversion leaves the successor node, and its follower waits on.",
	file:   "coordinator/zookeeper/entry.go",
	old:    `if e, _ := s.OwnEntry(s.ChildPath(queue, old.Key)); e.Successor != "" {`,
	new:    `if e, _ := s.OwnEntry(s.ChildPath(queue, old.Key)); false && e.Successor != "" {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassReportsAPass"}},
}, {
	name: "zookeeper-conversion-needs-the-successor-node", promise: "P8",
	what:   "A conversion fails when an operator has deleted the successor node.",
	file:   "coordinator/zookeeper/entry.go",
	old:    `	if err != nil && o.Failed == 3 {`,
	new:    `	if err != nil && o.Failed == 3 && false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestDeletedSuccessorNodeKeepsNoEntry"}},
}, {
	name: "zookeeper-converted-name-is-used-again", promise: "P4",
	what: "A conversion to an earlier mode uses an earlier name: a late request deletes the entry.",
	file: "coordinator/zookeeper/names.go",
	old: `	n.conversions++
`,
	new: `	n.conversions = 1
`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestConversionsUseNoNameTwice"}},
}, {
	name: "zookeeper-forget-wakes-nobody", promise: "P5",
	what: "A forgotten entry leaves its successor node, for which the follower waits.",
	file: "coordinator/zookeeper/queue.go",
	old: `		if all.hasSuccessor(n) {
			r.successor`,
	new: `		if all.hasSuccessor(n) && false {
			r.successor`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyPassReportsAPass"}},
}, {
	name: "zookeeper-unused-containers-stay", promise: "P4",
	what: "A call that fails leaves the containers that it has created.",
	file: "coordinator/zookeeper/internal/nodes/nodes.go",
	old: `	if len(made) == 0 {
		return`,
	new: `	if true {
		return`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestAttemptThatEndsBeforeItsJoinLeavesNoQueue"}},
}, {
	name: "zookeeper-close-leaves-containers", promise: "P4",
	what: "Close does not wait for the deletion of unused containers.",
	file: "coordinator/zookeeper/internal/nodes/nodes.go",
	old: `	if deleted != nil {
		patience`,
	new: `	if false {
		patience`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestAttemptThatEndsBeforeItsJoinLeavesNoQueue"}},
}, {
	name: "zookeeper-wakes-for-arrivals", promise: "P6",
	what:   "A wait for several entries ends whenever the queue changes.",
	file:   "coordinator/zookeeper/internal/nodes/read.go",
	old:    `	case err == nil && len(places) > 1 && !haveAll(w.Seen.Names, places):`,
	new:    `	case err == nil && len(places) > 1 && (true || !haveAll(w.Seen.Names, places)):`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestWatchOfSeveralIsNotEndedByAStray"}},
}, {
	name: "zookeeper-check-of-a-name", promise: "P3",
	what:   "A check compares the entry's name only.",
	file:   "coordinator/zookeeper/internal/nodes/read.go",
	old:    `; is != token || token == 0 {`,
	new:    `; false && is != token {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestCheckRefusesChildrenThatAreNoEntries"}},
}, {
	name: "zookeeper-late-write", promise: "P1",
	what:   "A late write overwrites a later one.",
	file:   "coordinator/zookeeper/internal/nodes/write.go",
	old:    `		version := own.version`,
	new:    `		version := int32(-1)+0*own.version`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestLateWriteIsNotAppliedAfterALaterOne"}},
}, {
	name: "zookeeper-refused-write-is-final", promise: "P8",
	what: "A write that an earlier request of it has overtaken fails.",
	file: "coordinator/zookeeper/internal/nodes/write.go",
	old: `		case !errors.Is(err, zk.ErrBadVersion):
			return err`,
	new: `		case true:
			return err`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestLateWriteIsNotAppliedAfterALaterOne"}},
}, {
	name: "zookeeper-record-of-any-version", promise: "P1",
	what: "A record is overwritten with a version that it never had.",
	file: "coordinator/zookeeper/internal/nodes/write.go",
	old: `	if v < 1 || v > math.MaxInt32 {
		return -2`,
	new: `	if (v < 1 || v > math.MaxInt32) && false {
		return -2`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinChecksTheRecordInTheSameRequest"}},
}, {
	name: "zookeeper-no-slack", promise: "P2",
	what:   "The deadline does not allow for what a crashed follower has not reported.",
	file:   "coordinator/zookeeper/internal/nodes/nodes.go",
	old:    `	return tick/2 + s.TTL()/driver.RenewalsPerTTL`,
	new:    `	return 0*tick`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestSlackFollowsTheTick"}},
}}
