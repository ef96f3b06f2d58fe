package main

// ofSharedLayouts are further mutations of the foreign layouts.
var ofSharedLayouts = []mutation{{
	name: "shared-spent-key-is-used-again", promise: "P4",
	what:   "The key of a contender whose Forget had no answer is used again: applied late, the Forget deletes it.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `	case l.contenders[queue].doubtful:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLateForeignForgetDeletesNoKeyOfAnother"}},
}, {
	name: "shared-forgotten-join-gets-a-lease", promise: "P4",
	what:   "A join that was forgotten takes a lease.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `	if err := stopped(); err != nil {`,
	new:    `	if err := stopped(); err != nil && false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetOvertakesWhatAJoinDoesFirst"}},
}, {
	name: "shared-forget-stops-no-join", promise: "P4",
	what:   "A Forget does not stop the joins of its contender before it looks for their lease.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `	s.StopJoins(name)`,
	new:    `	`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForgetOvertakesWhatAJoinDoesFirst"}},
}, {
	name: "shared-foreign-key-is-mine", promise: "P1",
	what:   "A join takes the key that another program has made for the session's lease.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `	case len(own) > 0 && a.Again:`,
	new:    `	case len(own) > 0:`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignKeyOfAnotherProgramIsNotTaken"}},
}, {
	name: "shared-repeat-keeps-the-epoch", promise: "P4",
	what:   "A repeated join on a shared queue does not raise the epoch.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `key: s.key(queue, l), fence: c.Again,`,
	new:    `key: s.key(queue, l), fence: false,`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignJoinSentAgainRulesOutTheFirst"}},
}, {
	name: "shared-old-view", promise: "P1",
	what:   "A view of a shared queue may be older than the contender's own join.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `r, err := s.Read(ctx, max(me.Rev, s.Seen()), ahead)`,
	new:    `r, err := s.Read(ctx, 0, ahead)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignViewIsAsNewAsItsOwnJoin"}},
}, {
	name: "shared-close-keeps-leases", promise: "P4",
	what:   "The close of a session leaves its additional leases.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `	rest := forAll(s.leases.rest(), func`,
	new:    `	rest := forAll([]clientv3.LeaseID(nil), func`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCloseRevokesTheLeasesOfAllContenders"}},
}, {
	name: "shared-revoked-lease-ends-the-session", promise: "P8",
	what:   "A lease that the session itself has revoked ends the session.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `		if slices.ContainsFunc(missing, isOurs) {`,
	new:    `		if (true || slices.ContainsFunc(missing, isOurs)) {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestRenewalsThatOverlapKeepTheSession"}},
}, {
	name: "shared-used-lease-is-revoked", promise: "P2",
	what: "A lease with a contender is revoked.",
	file: "coordinator/etcd/internal/foreign/leases.go",
	old: `		case l.idle:
			revoke`,
	new: `		case len(l.contenders) < 9:
			revoke`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestContendersOfOneSessionHaveALeaseEach"}},
}, {
	name: "shared-doubt-not-noted", promise: "P4",
	what:   "A Forget without an answer does not keep its contender's key from others.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `		s.leases.doubt(queue, id)`,
	new:    `		`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestLateForeignForgetDeletesNoKeyOfAnother"}},
}, {
	name: "shared-last-numbers-are-used", promise: "P1",
	what:   "A contender joins with one of the last sequence numbers.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `n.seq < 0 || n.seq > math.MaxInt32-reserve {`,
	new:    `n.seq < 0 || n.seq > math.MaxInt32-reserve && false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestLastNumbersAreNotUsed"}},
}, {
	name: "shared-negative-numbers-are-an-order", promise: "P1",
	what:   "A queue with negative sequence numbers has an order.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `	case len(entries) > 0 && entries[0].seq < 0:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestStrayChildrenAreReportedByName"}},
}, {
	name: "shared-place-of-another-session", promise: "P7",
	what:   "A session releases the entry of another one.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `; !known || nodes.CheckID(own.ID) != nil`,
	new:    `; !known && false || nodes.CheckID(own.ID) != nil`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestConformanceOfForeignLayouts"}},
}, {
	name: "shared-node-of-another-session", promise: "P7",
	what:   "A contender takes the node of another session for its own.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `		case err == nil && stat.EphemeralOwner == s.Number():`,
	new:    `		case err == nil && stat.EphemeralOwner == s.Number() || true:`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestConformanceOfForeignLayouts"}},
}, {
	name: "shared-lone-join-is-not-checked", promise: "P1",
	what: "A contender that wants to be alone keeps an entry behind others.",
	file: "coordinator/zookeeper/internal/foreign/session.go",
	old: `	if !c.Alone || j.First {
		return j, nil`,
	new: `	if true {
		return j, nil`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestOneOfTwoLoneJoinsThatCrossIsRefused"}},
}, {
	name: "shared-first-beside-strays", promise: "P1",
	what:   "A contender is the first of a queue without an order.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `	j.First = i == 0 && ambiguous == nil`,
	new:    `	j.First = i == 0 && true`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestStrayHidesTheOrder"}},
}, {
	name: "shared-nearest-beside-strays", promise: "P1",
	what:   "A contender follows its predecessor in a queue without an order.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `i > 0 && c.Follows && ambiguous == nil {`,
	new:    `i > 0 && c.Follows && true {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestStrayHidesTheOrder"}},
}, {
	name: "shared-silent-entry-is-written", promise: "P5",
	what:   "A leader writes to its entry, after which Curator's next contender is not notified of the end.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `	if form.silent {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestLeaderDoesNotWriteToItsLatch"}},
}, {
	name: "shared-any-value-revokes", promise: "P8",
	what:   "Any value of an entry asks its holder to release.",
	file:   "coordinator/zookeeper/internal/foreign/session.go",
	old:    `if err != nil || string(w.Seen.Value) == revoke {`,
	new:    `if err != nil || true {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOnlyCuratorsWordRevokes"}},
}, {
	name: "shared-reused-name-is-removed", promise: "P7",
	what: "An operator removes an entry whose name its owner can use again.",
	file: "coordinator/zookeeper/internal/foreign/session.go",
	old: `	case form.unordered:
		return zkconn`,
	new: `	case false:
		return zkconn`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestRemoveOnSharedQueues"}},
}, {
	name: "shared-applied-conversion-is-an-error", promise: "P8",
	what: "A repeated downgrade whose first attempt was applied reports that the entry is gone.",
	file: "coordinator/zookeeper/internal/foreign/session.go",
	old: `	if errors.Is(err, zk.ErrNoNode) {
		// An earlier`,
	new: `	if false {
		// An earlier`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestForeignDowngradeWithALostReplyIsRepeated"}},
}, {
	name: "shared-repeated-join", promise: "P4",
	what: "A repeated join on a shared queue does not look for the node that the first attempt may have created.",
	file: "coordinator/zookeeper/internal/foreign/session.go",
	old: `	if c.Again {
		names`,
	new: `	if false {
		names`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestForeignJoinWithALostReplyHasOneEntry"}},
}, {
	name: "shared-forget-without-sync", promise: "P4",
	what: "A Forget lists a shared queue at a server that has not applied the join yet.",
	file: "coordinator/zookeeper/internal/foreign/session.go",
	old: `	if err := s.Sync(ctx, s.Path(queue)); err != nil {
		return nil, err
	}
	names, err`,
	new:    `	names, err`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestForeignForgetListsTheQueueAfterASync"}},
}}
