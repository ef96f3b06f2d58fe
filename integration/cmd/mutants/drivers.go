package main

// ofDrivers are mutations of the two drivers. Tests on their fakes, in virtual
// time, catch them.
var ofDrivers = []mutation{{
	name: "etcd-old-view", promise: "P1",
	what:   "A view from a member that has not applied the contender's own join yet is accepted.",
	file:   "coordinator/etcd/view.go",
	old:    `s.Read(ctx, max(me.Rev, s.Seen()), ops...)`,
	new:    `s.Read(ctx, 0, ops...)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestAheadNeedsAViewAsNewAsItsOwnJoin"}},
}, {
	name: "etcd-watch-without-a-read", promise: "P5",
	what: "A watch from now is not followed by a read: a removal just before it is never noticed.",
	file: "coordinator/etcd/internal/lease/read.go",
	old:  `	r, err := w.session.Read(ctx, max(resp.Header.Revision, w.newest), w.read)`,
	new: `	return false, nil
	r, err := w.session.Read(ctx, max(resp.Header.Revision, w.newest), w.read)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestDoneClosesWhenLeaseWasRevokedBeforeTheWatch"}},
}, {
	name: "etcd-cancelled-watch-kept", promise: "P6",
	what: "A watch whose waiter has left before it was set is kept.",
	file: "coordinator/etcd/internal/watch/watch.go",
	old: `		case <-st.left:
		}
		cancel()`,
	new: `		case <-st.left:
		}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowUntilTheWatchIsCreated"}},
}, {
	name: "etcd-watch-cancelled-too-early", promise: "P6",
	what: "A waiter cancels a watch before it is set, and the server keeps the watch.",
	file: "coordinator/etcd/internal/watch/watch.go",
	old: `	events := open(ctx, st, ask, cancel)
	if events == nil {
		return ended(st)`,
	new: `	defer cancel()
	events := open(ctx, st, ask, cancel)
	if events == nil {
		return ended(st)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowUntilTheWatchIsCreated"}},
}, {
	name: "etcd-marker-taken-for-entry", promise: "P1",
	what:   "A repeated join mistakes the handoff marker of an earlier contender of its name for its entry, and holds without an entry.",
	file:   "coordinator/etcd/queue.go",
	old:    `		clientv3.OpGet(a.entry, clientv3.WithKeysOnly()),`,
	new:    `		clientv3.OpGet(a.entry, clientv3.WithPrefix(), clientv3.WithKeysOnly()),`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestMarkerIsNoEntry"}},
}, {
	name: "etcd-batch-joins-queue-twice", promise: "P1",
	what:   "Two joins of a queue are sent in one transaction: both find the queue empty.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `	case slices.ContainsFunc(b.joins, sameQueue):`,
	new:    `	case slices.ContainsFunc(b.joins, sameQueue) && false:`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestOneJoinOfAQueueWaits"}},
}, {
	name: "etcd-batch-refused-for-all", promise: "P5",
	what:   "A request without permission makes all requests of its batch fail.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `r.err, r.alone = err, refused; err == nil`,
	new:    `r.err, r.alone = err, refused && false; err == nil`,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestRefusedBatchIsSentOneByOne"}},
}, {
	name: "etcd-batch-waits-for-ever", promise: "P5",
	what:   "Requests wait for earlier requests that a silent member does not answer.",
	file:   "coordinator/etcd/internal/batch/batch.go",
	old:    `		time.AfterFunc(longestWait, b.waitedLong)`,
	new:    ``,
	caught: []test{{pkg: "coordinator/etcd/internal/batch", name: "TestRequestsDoNotWaitForASilentMember"}},
}, {
	name: "etcd-compaction-ends-the-wait", promise: "P5",
	what:   "A watch whose revision was compacted is not set again.",
	file:   "coordinator/etcd/internal/watch/watch.go",
	old:    `answer.Is(err, rpctypes.ErrCompacted):`,
	new:    `answer.Is(err, rpctypes.ErrCompacted) && ctx == nil:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWatchSurvivesCompaction"}},
}, {
	name: "etcd-waits-rest-on-one-member", promise: "P5",
	what:   "Waits do not leave a member that shows no changes any more.",
	file:   "coordinator/etcd/internal/watch/refresh.go",
	old:    `		if shown >= rev {`,
	new:    `		if shown > 0 {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestNoWaitRestsOnAMemberThatStopsToApply"}},
}, {
	name: "etcd-wait-reads-without-a-bound", promise: "P8",
	what:   "A wait waits for a read that a member never answers.",
	file:   "coordinator/etcd/internal/lease/wait.go",
	old:    `patience.Bind(ctx, s.patience.Context())`,
	new:    `patience.Bind(ctx, s.life)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestNoWaitRestsOnAnUnansweredRead"}},
}, {
	name: "etcd-release-by-name", promise: "P7",
	what: "A release, or a removal by an operator, deletes the key even if it now belongs to another entry.",
	file: "coordinator/etcd/internal/lease/read.go",
	old:  `	resp, err := s.Txn(ctx).If(e.Exists()).Then(then...).Commit()`,
	new:  `	resp, err := s.Txn(ctx).Then(then...).Commit()`,
	caught: []test{
		{pkg: "coordinator/etcd", name: "TestLeaveOfAnEarlierLifeDeletesNothing"},
		{pkg: "coordinator/etcd", name: "TestRemoveOfAnEarlierLifeDeletesNothing"},
	},
}, {
	name: "etcd-key-from-session", promise: "P1",
	what:   "A contender's key contains only the lease, as in etcd's own Mutex.",
	file:   "coordinator/etcd/internal/keys/layout.go",
	old:    `	return l.Queue(queue) + session + "-" + id + "-"`,
	new:    `	return l.Queue(queue) + session + "-" + session + "-"`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLastHasNoEntryBehind"}},
}, {
	name: "etcd-late-join-applied", promise: "P4",
	what:   "A join does not compare the session's epoch: a late join is applied after it was undone.",
	file:   "coordinator/etcd/queue.go",
	old:    `conds := append(make([]clientv3.Cmp, 0, 4), s.InEpoch(a.epoch))`,
	new:    `conds := make([]clientv3.Cmp, 0, 4)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetOvertakesJoin"}},
}, {
	name: "etcd-external-lease-not-renewed", promise: "P2",
	what:   "A session on an external lease opens without a renewal.",
	file:   "coordinator/etcd/external.go",
	old:    `	kept, err := conn.KeepAlive(ctx, id)`,
	new:    `	kept, err := lease.Kept{}, error(nil)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestExternalLeaseIsRenewedWhenItsSessionOpens"}},
}, {
	name: "etcd-external-entries-stay", promise: "P4",
	what:   "Entries on an external lease that Close could not remove stay as long as the lease.",
	file:   "coordinator/etcd/external.go",
	old:    `	x.late.Do(func() { go x.removeLater() })`,
	new:    ``,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionGoesOnInTheBackground"}},
}, {
	name: "etcd-old-term-renews", promise: "P2",
	what:   "A renewal counts although its member shows an older term than another.",
	file:   "coordinator/etcd/internal/lease/leader.go",
	old:    `	if shown != 0 && !l.learn(shown) {`,
	new:    `	if !l.learn(shown) && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestKeepAlivesOfADeposedLeaderDoNotCount"}},
}, {
	name: "etcd-silent-member-goes-unnoticed", promise: "P5",
	what:   "A request that a silent member took is repeated at one member.",
	file:   "coordinator/etcd/internal/lease/silence.go",
	old:    `	if err != nil && (`,
	new:    `	if false && (`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestRequestThatASilentMemberTookIsRepeatedAtTwo"}},
}, {
	name: "etcd-writes-meet-the-silent-member", promise: "P8",
	what:   "Other requests of the client decide whether each attempt to write meets a silent member.",
	file:   "coordinator/etcd/internal/lease/silence.go",
	old:    `		c.Go(c.shift) // no call may last longer for it`,
	new:    ``,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestRequestsDoNotMeetASilentMemberForEver"}},
}, {
	name: "etcd-first-entry-read-at-one-member", promise: "P8",
	what:   "A read of the known first entry that a silent member took is repeated at one member.",
	file:   "coordinator/etcd/internal/lease/read.go",
	old:    `s.Conn.Silence.copies(), nil, 0, send`,
	new:    `1, nil, 0, send`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestRequestsDoNotMeetASilentMemberForEver"}},
}, {
	name: "etcd-refusal-waits-for-the-silent", promise: "P8",
	what:   "Of two reads at once, the refusal of one waits for the other, which a silent member took.",
	file:   "coordinator/etcd/internal/lease/fastest.go",
	old:    ` && !isAnswer(first.err)`,
	new:    ``,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestRefusalCountsWhileAMemberIsSilent"}},
}, {
	name: "etcd-session-of-no-caller-stays", promise: "P4",
	what:   "A session that was opened when its caller had given up lives for its TTL.",
	file:   "coordinator/etcd/driver.go",
	old:    `				_ = s.Close(going)`,
	new:    `				s.Stop()`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestSessionThatNoCallerWaitsForIsEnded"}},
}, {
	name: "etcd-close-at-one-member", promise: "P4",
	what:   "The request that ends a session is repeated at one member.",
	file:   "coordinator/etcd/internal/lease/session.go",
	old:    `c.Silence.copies(), nil, 0, revoke`,
	new:    `1, nil, 0, revoke`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestRequestsDoNotMeetASilentMemberForEver"}},
}, {
	name: "etcd-renewal-unconfirmed", promise: "P2",
	what:   "A renewal counts although no other member was asked.",
	file:   "coordinator/etcd/internal/lease/renew.go",
	old:    `!s.Conn.Several || `,
	new:    `true || `,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestHoldOfAClientThatReachesOnlyADeposedLeaderEndsInTime"}},
}, {
	name: "etcd-renewal-confirmed-long-ago", promise: "P2",
	what:   "A renewal counts for longer than the lease may live, if no other member was asked since the one before.",
	file:   "coordinator/etcd/internal/lease/renew.go",
	old:    `interval+min(interval/2, mostLate)`,
	new:    `interval*3/2`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalThatCountsRestsOnALiveLeader"}},
}, {
	name: "etcd-renewal-confirmed-by-one", promise: "P2",
	what:   "The read that confirms a renewal waits for one member, which may be silent each time.",
	file:   "coordinator/etcd/internal/lease/fastest.go",
	old:    `len(s.Conn.Client.Endpoints())`,
	new:    `0`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestSilentMembersCostNoSession"}},
}, {
	name: "etcd-renewals-at-one-member", promise: "P2",
	what:   "All renewals of a session go to one member.",
	file:   "coordinator/etcd/renew.go",
	old:    `min(len(r.client.Endpoints()), mostMembers)`,
	new:    `1`,
	caught: []test{{pkg: "integration/internal/virtualetcd", name: "TestKeepAlivesGoToTheMembersInTurn"}},
}, {
	name: "etcd-search-again-and-again", promise: "P2",
	what:   "A member that hangs takes one of three renewals, again and again.",
	file:   "coordinator/etcd/renew.go",
	old:    `	if s.member != 0 {`,
	new:    `	if true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestMemberThatHangsIsSearchedForSeldom"}},
}, {
	name: "zookeeper-order-of-strings", promise: "P1",
	what: "Sequence numbers are compared as text: after 2147483647 a newcomer overtakes the holder.",
	file: "coordinator/zookeeper/names.go",
	old: `	pivot := all[0].seq // which node does not matter
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.seq-pivot, b.seq-pivot) })`,
	new: `	slices.SortFunc(all, func(a, b node) int {
		return cmp.Compare(a.Key[strings.LastIndex(a.Key, "_")+1:], b.Key[strings.LastIndex(b.Key, "_")+1:])
	})`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOrderSurvivesTheWrap"}},
}, {
	name: "zookeeper-token-is-sequence", promise: "P3",
	what:   "The token is the node's sequence number, which overflows, and restarts with its parent.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `driver.Token(o.Stat.Mzxid)`,
	new:    `driver.Token(n.seq)`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinReadsItsPlaceFromOneReply"}},
}, {
	name: "zookeeper-repeated-join", promise: "P4",
	what:   "A repeated join does not search for the node that the first attempt may have created.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `	if c.Again {`,
	new:    `	if false && c.Again {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinWithUnknownOutcome"}},
}, {
	name: "zookeeper-accepts-any-reply", promise: "P1",
	what:   "A join accepts a reply about a different node.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `	if !strings.HasPrefix(path, asked) {`,
	new:    `	if len(path) < len(asked) {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestJoinRefusesReplyAboutAnotherNode"}},
}, {
	name: "zookeeper-foreign-release", promise: "P7",
	what:   "A release deletes the node of another session.",
	file:   "coordinator/zookeeper/queue.go",
	old:    `n.Session != s.Hex`,
	new:    `false`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestEntriesOfAnotherSessionAreNotTouched"}},
}, {
	name: "zookeeper-moved-session", promise: "P1",
	what:   "A connection that was given a different session continues, and replies for that session are accepted.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `	case known.session != 0 && h.session != known.session:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestConnectionWithAnotherSessionEndsTheSession"}},
}, {
	name: "queue-watch-counts-only", promise: "P5",
	what:   "The shared watch of a queue does not wake its waiters when one entry was removed and another added.",
	file:   "internal/engine/queuewatch.go",
	old:    `left = left || w.view.At(p) < 0`,
	new:    `left = left || p.Key == "" || len(places) < len(before.Places)`,
	caught: []test{{pkg: "internal/engine", name: "TestQueueWatchShowsADepartureAmongArrivals"}},
}}
