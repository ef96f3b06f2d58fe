package main

// ofEtcdQueues are further mutations of the queues on etcd.
var ofEtcdQueues = []mutation{{
	name: "etcd-refused-repeat-keeps-the-epoch", promise: "P4",
	what:   "A repeated join that is refused does not raise the epoch: an earlier request of it may be applied later.",
	file:   "coordinator/etcd/queue.go",
	old:    `then, otherwise = append(then, s.RaiseEpoch()), append(otherwise, s.RaiseEpoch())`,
	new:    `then = append(then, s.RaiseEpoch())`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestJoinSentAgainRaisesTheEpochOnce"}},
}, {
	name: "etcd-repeat-keeps-the-epoch", promise: "P4",
	what:   "A repeated join does not raise the epoch: an earlier request of it may be applied after its entry was removed.",
	file:   "coordinator/etcd/queue.go",
	old:    `prefix: prefix, fence: c.Again}`,
	new:    `prefix: prefix, fence: false}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestJoinSentAgainRaisesTheEpochOnce"}},
}, {
	name: "etcd-each-attempt-raises-the-epoch", promise: "P8",
	what: "Each attempt of a repeated join raises the epoch: joins that are repeated together refuse each other.",
	file: "coordinator/etcd/queue.go",
	old: `	for ; ; a.fence = false {
		var err error`,
	new: `	for {
		var err error`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestJoinSentAgainRaisesTheEpochOnce"}},
}, {
	name: "etcd-lone-join-leaves-the-tail", promise: "P1",
	what:   "A contender that joins alone leaves the tail key of an entry that is gone.",
	file:   "coordinator/etcd/queue.go",
	old:    `then = append(then, clientv3.OpDelete(s.keys.Tail(a.queue)))`,
	new:    ``,
	caught: []test{{pkg: "coordinator/etcd", name: "TestAloneJoinsAQueueWithAStaleTailKey"}},
}, {
	name: "etcd-repeated-join-overwrites", promise: "P1",
	what:   "A repeated join writes its entry again.",
	file:   "coordinator/etcd/queue.go",
	old:    `keys.Unchanged(a.entry, 0), keys.Absent(keys.Converted(a.prefix))`,
	new:    `keys.Absent(keys.Converted(a.prefix))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRepeatedJoinKeepsItsPlace"}},
}, {
	name: "etcd-repeated-join-beside-its-conversion", promise: "P1",
	what:   "A repeated join makes a second entry beside its converted one.",
	file:   "coordinator/etcd/queue.go",
	old:    `keys.Unchanged(a.entry, 0), keys.Absent(keys.Converted(a.prefix))`,
	new:    `keys.Unchanged(a.entry, 0), keys.Unchanged(a.entry, 0)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRepeatedJoinFindsItsConvertedEntry"}},
}, {
	name: "etcd-record-not-compared", promise: "P1",
	what: "A join does not compare the record's version.",
	file: "coordinator/etcd/queue.go",
	old: `	if a.Record != 0 {
		conds`,
	new: `	if false {
		conds`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionRemovesOwnEntriesOnly"}},
}, {
	name: "etcd-repeated-join-is-first", promise: "P1",
	what:   "A join that finds its entry reports that it is the first.",
	file:   "coordinator/etcd/queue.go",
	old:    `joined.First = inQueue == 1`,
	new:    `joined.First = true`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRepeatedJoinKeepsItsPlace"}},
}, {
	name: "etcd-unanswered-join-not-counted", promise: "P4",
	what:   "Without space, a forgotten contender counts as gone although a join of it may still be applied.",
	file:   "coordinator/etcd/queue.go",
	old:    `		s.Joins.Lost(a.prefix, c, a.epoch)`,
	new:    `		`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetWithoutSpace"}},
}, {
	name: "etcd-join-without-space-is-left", promise: "P4",
	what: "A join that was applied although it was refused for want of space leaves its entry.",
	file: "coordinator/etcd/queue.go",
	old: `	if answer.Is(err, rpctypes.ErrNoSpace) {
		e, failed`,
	new: `	if answer.Is(err, rpctypes.ErrNoSpace) && false {
		e, failed`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRequestThatCrossesTheQuotaIsFound"}},
}, {
	name: "etcd-plain-delete-in-a-queue", promise: "P5",
	what:   "A release deletes its key alone although the tail key names it or others follow.",
	file:   "coordinator/etcd/memory.go",
	old:    `k.plain, k.terms = first || !a.Follows`,
	new:    `k.plain, k.terms = true`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionRemovesOwnTailKeysOnly"}},
}, {
	name: "etcd-foreign-place-left", promise: "P7",
	what:   "A session removes the entry of another session.",
	file:   "coordinator/etcd/queue.go",
	old:    `if !ok || !named || n.Lease != s.ID() {`,
	new:    `if !ok || !named || false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOnlyItsSessionRemovesAnEntry"}},
}, {
	name: "etcd-forget-keeps-the-conversion", promise: "P4",
	what: "A forgotten contender's converted entry stays.",
	file: "coordinator/etcd/queue.go",
	old: `		clientv3.OpDelete(contender, clientv3.WithPrefix()),
		clientv3.OpDelete(keys.Converted(contender), clientv3.WithPrefix()))...)
	if err == nil {
		s.memory.drop(contender)`,
	new: `		clientv3.OpDelete(contender, clientv3.WithPrefix()))...)
	if err == nil {
		s.memory.drop(contender)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetRemovesAConvertedEntry"}},
}, {
	name: "etcd-forgotten-join-goes-on", promise: "P4",
	what: "A join that was forgotten tries again with the new epoch.",
	file: "coordinator/etcd/internal/lease/joins.go",
	old: `	if c.forgotten {
		return 0`,
	new: `	if false {
		return 0`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetOvertakesJoin"}},
}, {
	name: "etcd-marked-join-not-counted", promise: "P4",
	what: "Without space, a forgotten join under way does not count as unanswered.",
	file: "coordinator/etcd/internal/lease/joins.go",
	old: `		delete(j.calls, contender)
		j.unanswered[contender] = true`,
	new: `		delete(j.calls, contender)
		`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetWithoutSpaceDuringAJoin"}},
}, {
	name: "etcd-forget-needs-space", promise: "P5",
	what:   "Without space, a forgotten contender's entry stays and blocks the queue.",
	file:   "coordinator/etcd/internal/lease/joins.go",
	old:    `	case answer.Is(err, rpctypes.ErrNoSpace):`,
	new:    `	case answer.Is(err, rpctypes.ErrNoSpace) && false:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestSharedForgetWithoutSpaceNamesItsCause"}},
}, {
	name: "etcd-forget-without-space-is-final", promise: "P4",
	what:   "Without space, a contender is forgotten although a join of it may still be applied.",
	file:   "coordinator/etcd/internal/lease/joins.go",
	old:    `		if s.Joins.late(contender) {`,
	new:    `		if false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestSharedForgetWithoutSpaceNamesItsCause"}},
}, {
	name: "etcd-forget-outlives-the-session", promise: "P2",
	what:   "A Forget that finds the session's end does not report it.",
	file:   "coordinator/etcd/internal/lease/joins.go",
	old:    `	case !resp.Responses[len(drop)].GetResponseTxn().Succeeded:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLostSessionIsFoundByItsSentinel"}},
}, {
	name: "etcd-record-written-after-the-end", promise: "P4",
	what: "A record's write is applied after the end of its session.",
	file: "coordinator/etcd/record.go",
	old: `If(keys.Unchanged(key, int64(known)), s.Sentinel.Exists()).
		Then(clientv3.OpPut(key, string(value)))`,
	new: `If(keys.Unchanged(key, int64(known)), keys.Unchanged(key, int64(known))).
		Then(clientv3.OpPut(key, string(value)))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLostSessionIsFoundByItsSentinel"}},
}, {
	name: "etcd-record-read-at-one-member", promise: "P1",
	what: "A record is read at a member that may be behind.",
	file: "coordinator/etcd/record.go",
	old: `s.Get(ctx, clientv3.OpGet(key))
		now, rev`,
	new: `s.Read(ctx, 0, clientv3.OpGet(key))
		now, rev`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRecordIsNoOlderThanEarlierResults"}},
}, {
	name: "etcd-record-goes-back", promise: "P1",
	what:   "A wait for a record shows an event older than what it has read.",
	file:   "coordinator/etcd/record.go",
	old:    `			if ev.Kv.ModRevision <= rev {`,
	new:    `			if ev.Kv.ModRevision <= rev && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRecordIsNoOlderThanEarlierResults"}},
}, {
	name: "etcd-record-without-space-is-lost", promise: "P8",
	what:   "A record that was written although it was refused for want of space counts as not written.",
	file:   "coordinator/etcd/record.go",
	old:    `	if answer.Is(err, rpctypes.ErrNoSpace) {`,
	new:    `	if answer.Is(err, rpctypes.ErrNoSpace) && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRecordThatCrossesTheQuotaIsFound"}},
}, {
	name: "etcd-late-conversion", promise: "P4",
	what:   "A late conversion is applied after the entry was removed.",
	file:   "coordinator/etcd/entry.go",
	old:    `If(old.Exists(), s.Sentinel.Exists()).`,
	new:    `If(s.Sentinel.Exists(), s.Sentinel.Exists()).`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetWithoutSpace"}},
}, {
	name: "etcd-follower-before-its-predecessor", promise: "P6",
	what:   "A follower takes an entry that its member does not have yet for one that has left.",
	file:   "coordinator/etcd/handoff.go",
	old:    `since: max(e.Rev, me.Rev)}`,
	new:    `since: 0}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowUntilTheWatchIsCreated"}},
}, {
	name: "etcd-marker-of-an-earlier-life", promise: "P1",
	what:   "The handoff marker of an earlier entry of the name admits the follower.",
	file:   "coordinator/etcd/handoff.go",
	old:    `string(kv.Key) == keys.Marker(f.ahead.Key) && string(kv.Value) == madeAt(f.ahead)`,
	new:    `string(kv.Key) == keys.Marker(f.ahead.Key) && true`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowReadsEventsOfSeveralEntriesInOneMessage"}},
}, {
	name: "etcd-converted-entry-has-a-marker", promise: "P1",
	what:   "A converted entry leaves a handoff marker.",
	file:   "coordinator/etcd/handoff.go",
	old:    `if handoff && rank == e.Rev {`,
	new:    `if handoff && true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestHandoffLeavesNoMarkerThatStays"}},
}, {
	name: "etcd-first-leaves-the-tail", promise: "P6",
	what:   "The last entry of a queue leaves the tail key that names it.",
	file:   "coordinator/etcd/handoff.go",
	old:    `drop := []clientv3.Op{clientv3.OpDelete(tail)}`,
	new:    `drop := []clientv3.Op(nil)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionRemovesOwnTailKeysOnly"}},
}, {
	name: "etcd-markers-stay", promise: "P4",
	what:   "A follower does not delete the handoff marker.",
	file:   "coordinator/etcd/handoff.go",
	old:    `	s.memory.noteMark(me, keys.Marker(e.Key))`,
	new:    `	`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRefusedConversionForgetsNothing"}},
}, {
	name: "etcd-handoff-needs-space", promise: "P5",
	what:   "Without space, a release with a handoff fails.",
	file:   "coordinator/etcd/handoff.go",
	old:    `	if answer.Is(err, rpctypes.ErrNoSpace) {`,
	new:    `	if answer.Is(err, rpctypes.ErrNoSpace) && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestPassThatCrossesTheQuotaHasLeft"}},
}, {
	name: "etcd-applied-handoff-is-an-error", promise: "P8",
	what:   "A handoff that was applied although it was refused for want of space reports that nothing was held.",
	file:   "coordinator/etcd/handoff.go",
	old:    `if err = s.leave(ctx, queue, e, false); errors.Is(err, driver.ErrGone) {`,
	new:    `if err = s.leave(ctx, queue, e, false); errors.Is(err, driver.ErrGone) && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestPassThatCrossesTheQuotaHasLeft"}},
}, {
	name: "etcd-fresh-member-is-old", promise: "P2",
	what:   "A member that has applied nothing since its start counts as deposed.",
	file:   "coordinator/etcd/internal/lease/leader.go",
	old:    `	if shown != 0 && !l.learn(shown) {`,
	new:    `	if true && !l.learn(shown) {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOnlyAnOlderTermRefusesAKeepAlive"}},
}, {
	name: "etcd-batch-too-large", promise: "P5",
	what:   "A batch has more operations than a member accepts.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `n := min(len(*from), maxInBatch)`,
	new:    `n := min(len(*from), 1000)`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestWaitingRequestsShareATransaction"}},
}, {
	name: "etcd-batch-takes-foreign-metadata", promise: "P8",
	what:   "A request with metadata of its caller is sent in a batch without them.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `		_, goes = metadata.FromOutgoingContext(ctx)`,
	new:    `		_, _ = metadata.FromOutgoingContext(ctx)`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestRequestWithMetadataIsSentAlone"}},
}, {
	name: "etcd-batch-without-space-sent-again", promise: "P4",
	what: "The requests of a batch that was refused for want of space, and may be applied, are sent again.",
	file: "coordinator/etcd/internal/batch/batch.go",
	old: `errors.Is(answer.Kind(err), driver.ErrRefused) &&
		!answer.Is(err, rpctypes.ErrNoSpace)`,
	new: `errors.Is(answer.Kind(err), driver.ErrRefused) &&
		!answer.Is(err, rpctypes.ErrNoSpace) || true`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestUncertainBatchIsUncertainForEachRequest"}},
}, {
	name: "etcd-batch-ends-with-one-caller", promise: "P8",
	what:   "A batch is cancelled when one of its callers gives up.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `	if t.left--; t.left == 0 {`,
	new:    `	if t.left--; true {`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestCancelledRequestLeavesItsBatchToTheOthers"}},
}, {
	name: "etcd-batch-joins-for-nobody", promise: "P4",
	what:   "A request whose caller has gone before it was sent is sent all the same.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `		b.joins, b.deletes = slices.DeleteFunc(b.joins, is), slices.DeleteFunc(b.deletes, is)`,
	new:    `		_ = is`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestCancelledWaitingRequestIsNotSent"}},
}, {
	name: "etcd-followed-departure-not-learnt", promise: "P5",
	what:   "A view after Follow may show the entry that has left.",
	file:   "coordinator/etcd/handoff.go",
	old:    `			f.s.Learn(ev.Kv.ModRevision)`,
	new:    `			`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestViewIsAsNewAsWhatAWaitHasShown"}},
}, {
	name: "etcd-own-watch-knows-nothing-before-it", promise: "P5",
	what:   "A session's watch of its own entries does not find what left before it existed.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `since >= e.Rev && (k.thereAt != since || k.there != e.Rev)`,
	new:    `since < 0`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOwnWatchMissesNothing"}},
}, {
	name: "etcd-own-watch-forgets-deletions", promise: "P5",
	what:   "A wait does not find what the session's watch of its own entries has shown before.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `		k.went = max(k.went, rev)`,
	new:    `		k.went = 0`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOwnWatchMissesNothing"}},
}, {
	name: "etcd-view-older-than-own-removal", promise: "P6",
	what:   "A view may show an entry of a contender that the session has forgotten, after a wait for the entry has ended.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `		s.LearnRemoved()`,
	new:    `		`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestViewAfterAWaitLacksWhatTheSessionItselfRemoved"}},
}, {
	name: "etcd-view-older-than-refused-join", promise: "P6",
	what:   "A view may show the entry that a refused join has not found, after a wait for the entry has ended.",
	file:   "coordinator/etcd/queue.go",
	old:    `		s.NoteRemoved(resp.Header.Revision)`,
	new:    `		_ = resp`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestViewAfterAWaitLacksWhatAJoinDidNotFind"}},
}, {
	name: "etcd-own-watch-confuses-contenders-of-one-name", promise: "P5",
	what:   "A wait for an entry goes on because a later contender has its name.",
	file:   "coordinator/etcd/memory.go",
	old:    `		k = &known{after: m.newest}`,
	new:    `		k = &known{}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOwnWatchMissesNothing"}},
}, {
	name: "etcd-own-watch-takes-markers-for-entries", promise: "P8",
	what:   "A deleted handoff marker counts as the deletion of a later entry of its key.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `		if ev.Type != mvccpb.DELETE || keys.IsMarker(key) {`,
	new:    `		if ev.Type != mvccpb.DELETE {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOwnWatchMissesNothing"}},
}, {
	name: "etcd-own-watch-shows-joins", promise: "P6",
	what:   "A session's watch of its own entries shows each of its joins.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `clientv3.WithPrefix(), clientv3.WithFilterPut()},`,
	new:    `clientv3.WithPrefix()},`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWaitersOfASessionShareOneWatch"}},
}, {
	name: "etcd-own-pass-is-not-noted", promise: "P6",
	what:   "A contender that begins to follow an entry of its session during the Pass of that entry reads the queue afterwards.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `w.passes = k.passes == w.ahead.Rev`,
	new:    `w.passes = false`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowerOfTheSameSessionNoticesAPass"}},
}, {
	name: "etcd-failed-pass-is-a-pass", promise: "P1",
	what:   "The follower of an entry of its session counts as the first when the entry leaves in another way after a Pass that failed.",
	file:   "coordinator/etcd/handoff.go",
	old:    `		s.passes(queue, e, false)`,
	new:    `		_ = e`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowerOfTheSameSessionNoticesAPass"}},
}, {
	name: "etcd-own-wait-leaves-for-another", promise: "P5",
	what:   "A wait that ends takes another wait for the same entry out of the session's watch.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `	waits[one.at], waits[last].at = waits[last], one.at`,
	new:    `	waits[one.at] = waits[last]`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowersOfOneEntryEndOnTheirOwn"}},
}, {
	name: "etcd-own-watch-stays", promise: "P4",
	what:   "A session's watch of its own entries outlives the last wait.",
	file:   "coordinator/etcd/ownwatch.go",
	old:    `	if watch.n--; watch.n == 0 {`,
	new:    `	if watch.n--; false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCancelledWaitersLeaveNothing"}},
}, {
	name: "etcd-follower-of-others-ignores-own-removal", promise: "P8",
	what:   "A contender behind another session's entry does not notice that its own was deleted.",
	file:   "coordinator/etcd/handoff.go",
	old:    `func() { s.awaitOwn(queue, w) }`,
	new:    `func() {}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowerOfAnotherSessionNoticesThatItsOwnEntryIsGone"}},
}}
