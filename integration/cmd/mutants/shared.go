package main

// ofShared are mutations of lines that are shared with other clients.
var ofShared = []mutation{{
	name: "shared-writers-read", promise: "P1",
	what:   "Curator's readers are not told from its writers: a writer joins those who read.",
	file:   "coordinator/zookeeper/shared.go",
	old:    `{"w", "__WRIT__"}`,
	new:    `{"r", "__WRIT__"}`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-backwards", promise: "P1",
	what:   "Whoever came last is first.",
	file:   "coordinator/zookeeper/guest.go",
	old:    `cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.Mode, a.Mode))`,
	new:    `cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(b.Mode, a.Mode))`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestDecisionsAreThoseOfTheOtherClient"}},
}, {
	name: "shared-strays-are-nobody", promise: "P1",
	what:   "Children that are none of the layout's are passed over, as Kazoo does, where Curator waits for them.",
	file:   "coordinator/zookeeper/shared.go",
	old:    `	if len(c.strays) > 0 {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestWhatIsNoEntryIsNamed"}},
}, {
	name: "shared-payload-revokes", promise: "P1",
	what:   "A payload asks whoever holds to give up.",
	file:   "coordinator/zookeeper/shared.go",
	old:    `	if f.revocable && string(value) == revoke {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestValuesThatMeanSomethingAreRefused"}},
}, {
	name: "shared-one-lease", promise: "P1",
	what:   "Two contenders of one session share a lease, and with it their key: both hold.",
	file:   "coordinator/etcd/leases.go",
	old:    `		l = ls.of(line, "")`,
	new:    `		l = ls.all[0]`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestContendersOfOneSessionHaveALeaseEach"}},
}, {
	name: "shared-lease-not-renewed", promise: "P2",
	what:   "The leases that a session has besides its own are not renewed with it, nor is it noticed when they end.",
	file:   "coordinator/etcd/leases.go",
	old:    `		renew = append(renew, l.id)`,
	new:    `		_ = renew`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestALostLeaseEndsTheSession"}},
}, {
	name: "shared-lease-missed", promise: "P2",
	what:   "A lease that was granted while the others were renewed counts as renewed with them.",
	file:   "coordinator/etcd/leases.go",
	old:    `	if ls.round != round {`,
	new:    `	if false {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestALeaseThatARenewalMissedIsRenewed"}},
}, {
	name: "shared-late-join-applied", promise: "P4",
	what:   "A join on a shared line does not compare the session's epoch.",
	file:   "coordinator/etcd/guest.go",
	old:    `		If(clientv3.Compare(clientv3.ModRevision(g.sentinel.key), "=", a.epoch), absent).`,
	new:    `		If(absent).`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestGuestsJoinAfterALostReply"}},
}, {
	name: "shared-stray-keys-are-waited-for", promise: "P8",
	what:   "A key that ends in no lease is waited for, though nobody may ever delete it.",
	file:   "coordinator/etcd/shared.go",
	old:    `	if len(strays) == 0 {`,
	new:    `	if true {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestStrayKeysMakeALineAmbiguous"}},
}, {
	name: "shared-releases-anybody", promise: "P7",
	what:   "A release deletes the key that a place names, whoever's it is.",
	file:   "coordinator/etcd/guest.go",
	old:    `	if l := g.leases.find(line, p.ID); !ok || p.ID == "" || p.Session != g.ID() || l == nil || g.contender(line, l) != e.key {`,
	new:    `	if !ok {`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestGuestsJoinAndLeaveInOneRequest"}},
}}
