package main

// ofEtcdSessions are mutations of the renewals, the watches and the end of a
// session of etcd.
var ofEtcdSessions = []mutation{{
	name: "etcd-external-marker", promise: "P4",
	what:   "On an external lease a handoff leaves its marker.",
	file:   "coordinator/etcd/external.go",
	old:    `	return x.Leave(ctx, queue, own)`,
	new:    `	return x.session.Pass(ctx, queue, own)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestHandoffLeavesNoMarkerThatStays"}},
}, {
	name: "etcd-external-forget-keeps-the-tail", promise: "P4",
	what:   "On an external lease a forgotten contender leaves its tail key.",
	file:   "coordinator/etcd/external.go",
	old:    `	return x.forget(ctx, queue, id, x.dropTail(x.keys.Tail(queue)))`,
	new:    `	return x.forget(ctx, queue, id)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionRemovesOwnTailKeysOnly"}},
}, {
	name: "etcd-external-close-keeps-the-sentinel", promise: "P4",
	what:   "The close of a session on an external lease leaves its sentinel: a late join is applied.",
	file:   "coordinator/etcd/external.go",
	old:    `x.Do(ctx, clientv3.OpDelete(x.Sentinel.Key))`,
	new:    `x.Do(ctx, clientv3.OpGet(x.Sentinel.Key))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseOfExternalSessionRemovesConvertedEntries"}},
}, {
	name: "etcd-external-close-begins-anew", promise: "P4",
	what: "Each attempt to close a session on an external lease removes all entries again.",
	file: "coordinator/etcd/external.go",
	old: `			x.memory.drop(contender)
		}
	}
	return nil`,
	new: `			_ = contender
		}
	}
	return nil`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRemovalInTheBackgroundGoesOnWhereItEnded"}},
}, {
	name: "etcd-external-owner-ignored", promise: "P2",
	what:   "A session on an external lease outlives the session of the lease's owner.",
	file:   "coordinator/etcd/external.go",
	old:    `unhook := context.AfterFunc(d.owner.Ctx(), s.End)`,
	new:    `unhook := context.AfterFunc(context.Background(), s.End)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestEndOfTheOwnerEndsTheSession"}},
}, {
	name: "etcd-external-old-term", promise: "P2",
	what:   "A session on an external lease opens by a renewal of a deposed leader.",
	file:   "coordinator/etcd/external.go",
	old:    `if err = answer.Wrap(ctx, s.Counts(kept.Header)); err != nil {`,
	new:    `if err = answer.Wrap(ctx, nil); err != nil {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestExternalSessionNeedsARenewalOfTheTermOfItsSentinel"}},
}, {
	name: "etcd-external-sentinel-stays", promise: "P4",
	what:   "An Open on an external lease that fails leaves its sentinel.",
	file:   "coordinator/etcd/external.go",
	old:    `			d.tidy(ctx)`,
	new:    `			`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestExternalSessionNeedsARenewalOfTheTermOfItsSentinel"}},
}, {
	name: "etcd-external-sentinel-outlives-close", promise: "P4",
	what:   "An Open on an external lease that its caller gives up leaves its sentinel, also after Close.",
	file:   "coordinator/etcd/external.go",
	old:    `		d.tidy(bound)`,
	new:    `		_ = bound`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestSentinelOfAnOpeningThatWasGivenUpIsDeleted"}},
}, {
	name: "etcd-external-late-delete", promise: "P2",
	what: "A late request of an Open that failed deletes the sentinel of the next one.",
	file: "coordinator/etcd/external.go",
	old: `		If(keys.Unchanged(key, got.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(key)).`,
	new:    `		Then(clientv3.OpDelete(key)).`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLateCleanUpOfAFailedOpenDeletesNoSentinel"}},
}, {
	name: "etcd-failed-open-keeps-its-lease", promise: "P4",
	what: "An Open that fails leaves its lease.",
	file: "coordinator/etcd/driver.go",
	old: `		_ = conn.Revoke(ctx, id)
		if errors.Is`,
	new: `		
		if errors.Is`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOpenThatFailsLeavesNoLease"}},
}, {
	name: "etcd-early-end-is-final", promise: "P8",
	what:   "An Open whose lease ends at once fails for good.",
	file:   "coordinator/etcd/driver.go",
	old:    `		if errors.Is(err, driver.ErrSessionLost) { // the lease has ended`,
	new:    `		if false { // the lease has ended`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestMembersOfTwoClustersAreRefused"}},
}, {
	name: "etcd-floor-accepted", promise: "P2",
	what:   "A session accepts a longer TTL than it asked for.",
	file:   "coordinator/etcd/internal/lease/session.go",
	old:    `	if lease.TTL != secs {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestOpenThatFailsLeavesNoLease"}},
}, {
	name: "etcd-sentinel-not-watched", promise: "P2",
	what:   "A session does not notice its end before the next renewal.",
	file:   "coordinator/etcd/internal/lease/session.go",
	old:    `		if s.awaitLeaving(s.life, "", s.Sentinel) == nil {`,
	new:    `		if s.awaitLeaving(s.life, "", s.Sentinel) == nil && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestFollowOfASessionThatIsLostWhileTheWatchIsCreated"}},
}, {
	name: "etcd-missing-sentinel-ignored", promise: "P2",
	what: "A session whose sentinel is missing continues.",
	file: "coordinator/etcd/internal/lease/session.go",
	old: `	if !s.Sentinel.In(read) {
		s.End()
`,
	new: `	if !s.Sentinel.In(read) {
`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLostSessionIsFoundByItsSentinel"}},
}, {
	name: "etcd-missing-lease-ignored", promise: "P2",
	what: "A session whose lease does not exist continues.",
	file: "coordinator/etcd/internal/lease/session.go",
	old: `	if answer.Is(err, rpctypes.ErrLeaseNotFound) {
		s.End()
`,
	new: `	if answer.Is(err, rpctypes.ErrLeaseNotFound) {
`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestALostLeaseEndsTheSession"}},
}, {
	name: "etcd-ended-session-goes-on", promise: "P2",
	what: "A session sends requests after it was found to be over.",
	file: "coordinator/etcd/internal/lease/session.go",
	old: `	if s.life.Err() != nil {
		return driver.ErrSessionLost`,
	new: `	if false {
		return driver.ErrSessionLost`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestEndOfTheOwnerEndsTheSession"}},
}, {
	name: "etcd-late-epoch-makes-a-sentinel", promise: "P4",
	what: "A late request that raises the epoch makes the sentinel again after the end of the session.",
	file: "coordinator/etcd/internal/lease/session.go",
	old: `		[]clientv3.Cmp{s.Sentinel.Exists()},
		[]clientv3.Op{clientv3.OpPut(s.Sentinel.Key`,
	new: `		[]clientv3.Cmp(nil),
		[]clientv3.Op{clientv3.OpPut(s.Sentinel.Key`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLostSessionIsFoundByItsSentinel"}},
}, {
	name: "etcd-closed-client-goes-on", promise: "P2",
	what:   "A session does not end when its client is closed.",
	file:   "coordinator/etcd/internal/lease/session.go",
	old:    `context.AfterFunc(c.Client.Ctx(), s.End)`,
	new:    `context.AfterFunc(context.Background(), s.End)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestClosedClientEndsItsSession"}},
}, {
	name: "etcd-renewal-after-the-end", promise: "P2",
	what: "A renewal counts although the session was found to be over meanwhile.",
	file: "coordinator/etcd/internal/lease/renew.go",
	old: `	if err := s.KeepAlive(ctx, s.Lease); err != nil {
		return err
	}
	return s.Alive()`,
	new: `	if err := s.KeepAlive(ctx, s.Lease); err != nil {
		return err
	}
	return nil`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalDuringTheEndDoesNotCount"}},
}, {
	name: "etcd-missing-lease-renewed", promise: "P2",
	what: "A keep-alive of a lease that does not exist counts as a renewal.",
	file: "coordinator/etcd/internal/lease/renew.go",
	old: `	if len(missing) > 0 {
		err = rpctypes`,
	new: `	if len(missing) > 0 && false {
		err = rpctypes`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalOfALeaseThatIsGoneEndsTheSession"}},
}, {
	name: "etcd-old-term-asked-once", promise: "P2",
	what:   "A renewal that a deposed leader has answered is not sent to the next member.",
	file:   "coordinator/etcd/internal/lease/renew.go",
	old:    `for range mostRefused {`,
	new:    `for range 1 {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalGoesToTheNextMemberAfterAnOlderTerm"}},
}, {
	name: "etcd-renewals-wait-for-a-connection", promise: "P2",
	what:   "Renewals without a connection wait for it, and are all sent together.",
	file:   "coordinator/etcd/renew.go",
	old:    `	for r.client.ActiveConnection().GetState() != connectivity.Connecting {`,
	new:    `	for r.client.ActiveConnection().GetState() != connectivity.Connecting || true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalDoesNotWaitForAConnection"}},
}, {
	name: "etcd-lost-connection-fails-the-renewal", promise: "P2",
	what: "A renewal on a stream whose connection was lost is not sent on another.",
	file: "coordinator/etcd/renew.go",
	old: `			if answer.Code(err) == codes.Unavailable && ctx.Err() == nil {
				continue`,
	new: `			if false {
				continue`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalAfterALostConnectionUsesTheNext"}},
}, {
	name: "etcd-twin-streams-stay", promise: "P2",
	what:   "Streams that lead to one member stay, and all renewals go there.",
	file:   "coordinator/etcd/renew.go",
	old:    `	case twin && (r.twins <= mostTwins || r.twins%every == 0):`,
	new:    `	case twin && (r.twins <= mostTwins || r.twins%every == 0) && false:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestMembersThatReturnAreSearchedForWithinATTL"}},
}, {
	name: "etcd-search-later", promise: "P2",
	what:   "A session whose renewals all go to one member searches seldom for another one.",
	file:   "coordinator/etcd/renew.go",
	old:    `		every = searchSoon`,
	new:    `		every = searchAgain`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestMembersThatReturnAreSearchedForWithinATTL"}},
}, {
	name: "etcd-failed-member-is-tried-again", promise: "P2",
	what:   "After a renewal without an answer the idle streams to the same member stay.",
	file:   "coordinator/etcd/renew.go",
	old:    `ends := all || other.leadsTo(s)`,
	new:    `ends := all || false`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestStreamsThatWouldFailTooAreClosed"}},
}, {
	name: "etcd-old-token-is-used-again", promise: "P2",
	what:   "After a refused token the streams with the same token stay.",
	file:   "coordinator/etcd/renew.go",
	old:    `ends := all || other.leadsTo(s)`,
	new:    `ends := false || other.leadsTo(s)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestStreamsThatWouldFailTooAreClosed"}},
}, {
	name: "etcd-watches-keep-an-old-token", promise: "P5",
	what:   "Watches stay on a stream whose token has expired.",
	file:   "coordinator/etcd/internal/watch/watch.go",
	old:    `		case w.unauthenticated(err):`,
	new:    `		case false:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWatchesLeaveAStreamWithoutAToken"}},
}, {
	name: "etcd-refused-token-spins", promise: "P6",
	what:   "A watch that a new stream refuses, too, is tried again without a pause.",
	file:   "coordinator/etcd/internal/watch/watch.go",
	old:    `			if !again { // a new`,
	new:    `			if !again && false { // a new`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWatchesLeaveAStreamWithoutAToken"}},
}, {
	name: "etcd-refresh-proves-nothing", promise: "P6",
	what:   "Each refresh opens another watch, also without a new revision.",
	file:   "coordinator/etcd/internal/watch/refresh.go",
	old:    `	if from.proven.Load() == rev && `,
	new:    `	if false && `,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWaitsOfASessionShareTheirRefresh"}},
}, {
	name: "etcd-refresh-trusts-a-stuck-stream", promise: "P5",
	what:   "A stream that has shown the revision needs no other proof, although a watch there does not exist yet.",
	file:   "coordinator/etcd/internal/watch/refresh.go",
	old:    ` && from.asked.Load() == 0 {`,
	new:    ` {`,
	caught: []test{{pkg: "coordinator/etcd/internal/watch", name: "TestWatchThatIsNotCreatedEndsTheProofOfItsStream"}},
}, {
	name: "etcd-refresh-leaves-the-stream", promise: "P5",
	what:   "A stream to which watches move is closed before they get there.",
	file:   "coordinator/etcd/internal/watch/refresh.go",
	old:    `			time.AfterFunc(within, o.release)`,
	new:    `			o.release()`,
	caught: []test{{pkg: "coordinator/etcd/internal/watch", name: "TestStreamToWhichWatchesMoveStaysOpen"}},
}, {
	name: "etcd-refresh-tries-one-member", promise: "P5",
	what:   "A refresh tries one other member, which may be behind, too.",
	file:   "coordinator/etcd/internal/watch/refresh.go",
	old:    `	for range mostMoves {`,
	new:    `	for range 1 {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestNoWaitBeginsForGoodOnAMemberThatStopsToApply"}},
}, {
	name: "etcd-refresh-is-impatient", promise: "P6",
	what: "A refresh leaves a member that has to catch up for a moment.",
	file: "coordinator/etcd/internal/watch/refresh.go",
	old: `			return release, true
		}
		release()
	}`,
	new: `			return release, true
		}
		release()
		return nil, false
	}`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestWaitsStayOnASlowMember"}},
}, {
	name: "etcd-one-refresh", promise: "P5",
	what: "Waits are refreshed once.",
	file: "coordinator/etcd/internal/lease/wait.go",
	old: `	if !w.stopped {
		w.arm(s)
	}`,
	new:    `	_ = w.stopped`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestNoWaitRestsOnAMemberThatStopsToApply"}},
}, {
	name: "etcd-refresh-reads-once", promise: "P5",
	what:   "A refresh does nothing when the member that applies nothing gets its read.",
	file:   "coordinator/etcd/internal/lease/wait.go",
	old:    `	for range quorumReads {`,
	new:    `	for range 1 {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestViewIsAsNewAsTheLastRefresh"}},
}, {
	name: "etcd-queue-watch-adds-twice", promise: "P1",
	what:   "A watch of a queue applies events that its read has shown.",
	file:   "coordinator/etcd/wait.go",
	old:    `if ev.Kv.ModRevision > rev && !written`,
	new:    `if true && !written`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestQueueIsReadOnceAndKeptByItsWatch"}},
}, {
	name: "etcd-queue-watch-takes-writes-for-joins", promise: "P1",
	what:   "A watch of a queue takes a written value for another entry.",
	file:   "coordinator/etcd/wait.go",
	old:    `> rev && !written &&`,
	new:    `> rev && (true || written) &&`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestQueueIsReadOnceAndKeptByItsWatch"}},
}, {
	name: "etcd-queue-watch-takes-markers-for-entries", promise: "P5",
	what:   "A watch of a queue takes a handoff marker for an entry.",
	file:   "coordinator/etcd/wait.go",
	old:    `&& !written && !keys.IsMarker(string(ev.Kv.Key)) {`,
	new:    `&& !written && true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestQueueWatchShowsNoMarkers"}},
}, {
	name: "etcd-queue-watch-not-learnt", promise: "P5",
	what:   "A view after a watch of the queue may be older than what that has shown.",
	file:   "coordinator/etcd/wait.go",
	old:    `		s.Learn(max(rev, watch.Newest(resp)))`,
	new:    `		_ = max(rev, watch.Newest(resp))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestViewIsAsNewAsWhatAWaitHasShown"}},
}}
