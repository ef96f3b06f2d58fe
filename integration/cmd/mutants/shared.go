package main

// ofShared are mutations of the foreign layouts.
var ofShared = []mutation{{
	name: "shared-writers-read", promise: "P1",
	what:   "Curator's readers and writers are not distinguished: a writer is admitted beside readers.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `{"w", "__WRIT__"}`,
	new:    `{"r", "__WRIT__"}`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-reversed-order", promise: "P1",
	what:   "The last contender is first.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.Mode, a.Mode))`,
	new:    `cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(b.Mode, a.Mode))`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-strays-ignored", promise: "P1",
	what:   "Children that do not belong to the layout are ignored, as in Kazoo, although Curator waits for them.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `	case len(strays) > 0:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestStrayChildrenAreReportedByName"}},
}, {
	name: "shared-payload-revokes", promise: "P1",
	what:   "A payload can be Curator's request for revocation.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `	if f.revocable && string(value) == revoke {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestRevocationValuesAreRefused"}},
}, {
	name: "shared-one-lease", promise: "P1",
	what:   "Two contenders of one session share a lease, and with it their key: both hold.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `		l = ls.of(queue, "")`,
	new:    `		l = ls.all[0]`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestContendersOfOneSessionHaveALeaseEach"}},
}, {
	name: "shared-lease-not-renewed", promise: "P2",
	what:   "A session's additional leases are not renewed, and their end is not noticed.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `		renew = append(renew, l.id)`,
	new:    `		_ = renew`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestALostLeaseEndsTheSession"}},
}, {
	name: "shared-lease-missed", promise: "P2",
	what:   "A lease granted during a round of renewals counts as renewed in it.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `	if ls.round != round {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/etcd/internal/foreign", name: "TestALeaseThatARenewalMissedIsRenewed"}},
}, {
	name: "shared-late-join-applied", promise: "P4",
	what:   "A join on a shared queue does not compare the session's epoch.",
	file:   "coordinator/etcd/internal/foreign/session.go",
	old:    `If(s.InEpoch(a.epoch), absent)`,
	new:    `If(absent)`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignJoinsAfterALostReply"}},
}, {
	name: "shared-stray-keys-are-waited-for", promise: "P8",
	what:   "A key without a lease ID is waited for, although it may never be deleted.",
	file:   "coordinator/etcd/internal/foreign/driver.go",
	old:    `	if len(strays) == 0 {`,
	new:    `	if true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestStrayKeysMakeAQueueAmbiguous"}},
}, {
	name: "shared-foreign-release", promise: "P7",
	what: "A release deletes a place's key, even another session's.",
	file: "coordinator/etcd/internal/foreign/session.go",
	old: `	if !ok || p.ID == "" || p.Session != s.ID() || l == nil ||
		e != (keys.Entry{Key: s.key(queue, l), Rev: rev}) {`,
	new:    `	if _, _ = l, rev; !ok {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignJoinAndLeaveAreOneRequestEach"}},
}, {
	name: "shared-permit-too-many", promise: "P1",
	what:   "The semaphore's next contender takes its lease without counting the existing ones.",
	file:   "semaphore/shared.go",
	old:    `		if len(others) < limit {`,
	new:    `		if len(others) < limit+1 {`,
	caught: []test{{pkg: "semaphore", name: "TestSharedPermitsAreWithinTheLimit"}},
}, {
	name: "shared-lost-place-unnoticed", promise: "P1",
	what:   "A contender that has lost its place continues to wait for a lease.",
	file:   "semaphore/shared.go",
	old:    `lock.Under(ctx)`,
	new:    `context.WithCancel(ctx)`,
	caught: []test{{pkg: "semaphore", name: "TestLossOfTheMutexEndsTheWaitForALease"}},
}}
