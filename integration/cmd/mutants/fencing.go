package main

// ofFencing are mutations of sequencers and their checks.
var ofFencing = []mutation{{
	name: "gate-takes-late-tokens", promise: "P3",
	what:   "A gate admits a token although it has seen a greater one.",
	file:   "coordinator/fence/gate.go",
	old:    `	if s.Token < g.latest {`,
	new:    `	if g.latest < 0 {`,
	caught: []test{{pkg: "coordinator/fence", name: "TestGateRefusesStaleTokensAndNamesBoth"}, {pkg: "coordinator/fence", name: "TestCheckAndAccessAreOneStep"}},
}, {
	name: "gate-takes-any-scope", promise: "P3",
	what:   "A gate compares tokens of different locks and clusters.",
	file:   "coordinator/fence/gate.go",
	old:    `	g.scope, g.latest = s.Scope, s.Token`,
	new:    `	g.latest = s.Token`,
	caught: []test{{pkg: "coordinator/fence", name: "TestGateTakesOneScope"}},
}, {
	name: "gate-left-before-the-access", promise: "P3",
	what:   "A gate admits another access between the check and the access.",
	file:   "coordinator/fence/lane.go",
	old:    `		defer func() { <-l.slot }()`,
	new:    `		<-l.slot`,
	caught: []test{{pkg: "coordinator/fence", name: "TestCheckAndAccessAreOneStep"}},
}, {
	name: "gate-waits-for-the-stopped", promise: "P3",
	what:   "A gate does not end the access of a stopped holder, which keeps the next one out.",
	file:   "coordinator/fence/gate.go",
	old:    `earlier.Token < s.Token`,
	new:    `earlier.Token > s.Token`,
	caught: []test{{pkg: "coordinator/fence", name: "TestStoppedHolderLetsTheNextOneIn"}},
}, {
	name: "stream-checked-once", promise: "P3",
	what:   "A stream's messages are not checked after its opening.",
	file:   "coordinator/fence/grpcfence/grpcfence.go",
	old:    `	return answer(s.ctx, s.check(s.ctx, seq))`,
	new:    `	return answer(s.ctx, seq.Validate())`,
	caught: []test{{pkg: "coordinator/fence/grpcfence", name: "TestStreamEndsWhenItsTokenIsStale"}},
}, {
	name: "check-of-any-service", promise: "P3",
	what:   "A service checks grants of another service, and reports that they are over, or finds an entry of its own with the key.",
	file:   "coordinator/check.go",
	old:    `seq.In(fence.Scope{Service: service})`,
	new:    `seq.In(fence.Scope{})`,
	caught: []test{{pkg: "internal/engine", name: "TestCheckRefusesASequencerOfAnotherService"}},
}, {
	name: "sequencer-before-conversion", promise: "P3",
	what:   "A permit's sequencer names the entry before its conversion.",
	file:   "recipes/entry.go",
	old:    `		conv = turn.convert(turn.heldMode)`,
	new:    ``,
	caught: []test{{pkg: "recipes", name: "TestSequencerHoldsForAsLongAsTheGrant"}},
}, {
	name: "guard-by-key", promise: "P3",
	what:   "On etcd a guarded write compares only the entry's name, which a later contender can reuse.",
	file:   "coordinator/etcd/entry.go",
	old:    `	return e.Exists(), nil`,
	new:    `	return clientv3.Compare(clientv3.CreateRevision(e.Key), ">", 0), nil`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestGuardHoldsAsLongAsTheEntryDoes"}},
}, {
	name: "check-at-a-lagging-member", promise: "P3",
	what:   "On etcd a check trusts a member that has not applied the removal yet.",
	file:   "coordinator/etcd/internal/lease/read.go",
	old:    `s.Get(ctx, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))`,
	new:    `s.Read(ctx, 0, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCheckIsNotAnsweredByAMemberThatIsBehind"}},
}, {
	name: "check-without-sync", promise: "P3",
	what: "On ZooKeeper a check trusts a server that has not applied the removal yet.",
	file: "coordinator/zookeeper/internal/nodes/read.go",
	old: `	if err := s.Sync(ctx, s.Layout.Path(queue)); err != nil {
		return err
	}
`,
	new:    ``,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestCheckIsOneReadAfterASync"}},
}}
