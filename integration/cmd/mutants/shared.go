package main

// ofShared are mutations of queues that are shared with other clients.
var ofShared = []mutation{{
	name: "shared-writers-read", promise: "P1",
	what:   "Curator's readers are not told from its writers: a writer joins those who read.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `{"w", "__WRIT__"}`,
	new:    `{"r", "__WRIT__"}`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-backwards", promise: "P1",
	what:   "Whoever came last is first.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.Mode, a.Mode))`,
	new:    `cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(b.Mode, a.Mode))`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-strays-are-nobody", promise: "P1",
	what:   "Children that are none of the layout's are passed over, as Kazoo does, where Curator waits for them.",
	file:   "coordinator/zookeeper/internal/foreign/layout.go",
	old:    `	case len(strays) > 0:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/foreign", name: "TestStrayChildrenAreReportedByName"}},
}, {
	name: "shared-payload-revokes", promise: "P1",
	what:   "A payload asks whoever holds to give up.",
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
	what:   "The leases that a session has besides its own are not renewed with it, nor is it noticed when they end.",
	file:   "coordinator/etcd/internal/foreign/leases.go",
	old:    `		renew = append(renew, l.id)`,
	new:    `		_ = renew`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestALostLeaseEndsTheSession"}},
}, {
	name: "shared-lease-missed", promise: "P2",
	what:   "A lease that was granted while the others were renewed counts as renewed with them.",
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
	what:   "A key that ends in no lease is waited for, though nobody may ever delete it.",
	file:   "coordinator/etcd/internal/foreign/driver.go",
	old:    `	if len(strays) == 0 {`,
	new:    `	if true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestStrayKeysMakeAQueueAmbiguous"}},
}, {
	name: "shared-releases-anybody", promise: "P7",
	what: "A release deletes the key that a place names, whoever's it is.",
	file: "coordinator/etcd/internal/foreign/session.go",
	old: `	if !ok || p.ID == "" || p.Session != s.ID() || l == nil ||
		e != (keys.Entry{Key: s.contender(queue, l), Rev: rev}) {`,
	new:    `	if _, _ = l, rev; !ok {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestForeignJoinAndLeaveAreOneRequestEach"}},
}, {
	name: "shared-permit-too-many", promise: "P1",
	what:   "Whoever has the turn takes its lease without counting those that are there.",
	file:   "semaphore/shared.go",
	old:    `		if len(others) < limit {`,
	new:    `		if len(others) < limit+1 {`,
	caught: []test{{pkg: "semaphore", name: "TestSharedPermitsAreWithinTheLimit"}},
}, {
	name: "shared-turn-lost-unseen", promise: "P1",
	what:   "Whoever has lost its turn goes on waiting for a lease.",
	file:   "semaphore/shared.go",
	old:    `turn.Under(ctx)`,
	new:    `context.WithCancel(ctx)`,
	caught: []test{{pkg: "semaphore", name: "TestTheTurnIsLostWhileALeaseIsWaitedFor"}},
}}
