package main

// ofFencing are mutations of sequencers, and of those who check them.
var ofFencing = []mutation{{
	name: "gate-takes-late-tokens", promise: "P3",
	what:   "A gate admits a token although a greater one was here before.",
	file:   "coordinator/fence/gate.go",
	old:    `	if latest := g.Latest(); s.Token < latest {`,
	new:    `	if latest := g.Latest(); latest < 0 {`,
	caught: []test{{pkg: "coordinator/fence", name: "TestGateRefusesStaleTokensAndNamesBoth"}, {pkg: "coordinator/fence", name: "TestCheckAndAccessAreOneStep"}},
}, {
	name: "gate-takes-any-scope", promise: "P3",
	what:   "A gate compares tokens of different locks and clusters.",
	file:   "coordinator/fence/gate.go",
	old:    `	g.scope = s.Scope`,
	new:    ``,
	caught: []test{{pkg: "coordinator/fence", name: "TestGateTakesOneScope"}},
}, {
	name: "gate-left-before-the-access", promise: "P3",
	what: "A gate lets the next one in between the check and the access.",
	file: "coordinator/fence/gate.go",
	old: `		defer func() { <-g.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := g.admit(s); err != nil {
		return err
	}
	return access()`,
	new: `	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := g.admit(s)
	<-g.busy
	if err != nil {
		return err
	}
	return access()`,
	caught: []test{{pkg: "coordinator/fence", name: "TestCheckAndAccessAreOneStep"}},
}, {
	name: "check-of-any-service", promise: "P3",
	what:   "A service is asked about grants of another one, and finds that they are over, or that an entry of its own has the key.",
	file:   "coordinator/check.go",
	old:    `seq.In(fence.Scope{Service: service})`,
	new:    `seq.In(fence.Scope{})`,
	caught: []test{{pkg: "internal/engine", name: "TestCheckRefusesWhatIsOfAnotherService"}},
}, {
	name: "sequencer-too-early", promise: "P3",
	what:   "A permit's sequencer names the entry that is converted soon after.",
	file:   "recipes/hold.go",
	old:    `		t = g.convert(g.held)`,
	new:    ``,
	caught: []test{{pkg: "recipes", name: "TestSequencerHoldsForAsLongAsTheGrant"}},
}, {
	name: "guard-by-key", promise: "P3",
	what:   "On etcd a guarded write goes by the name of the entry, which a later contender uses again.",
	file:   "coordinator/etcd/entry.go",
	old:    `	return e.Exists(), nil`,
	new:    `	return clientv3.Compare(clientv3.CreateRevision(e.Key), ">", 0), nil`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestGuardHoldsAsLongAsTheEntryDoes"}},
}, {
	name: "check-of-a-member-behind", promise: "P3",
	what:   "On etcd a check takes the word of a member that has not heard of the leaving.",
	file:   "coordinator/etcd/internal/lease/read.go",
	old:    `s.Get(ctx, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))`,
	new:    `s.Read(ctx, 0, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))`,
	caught: []test{{pkg: "coordinator/etcd", name: "TestCheckIsNotAnsweredByAMemberThatIsBehind"}},
}, {
	name: "check-without-sync", promise: "P3",
	what: "On ZooKeeper a check takes the word of a server that has not heard of the leaving.",
	file: "coordinator/zookeeper/internal/nodes/read.go",
	old: `	if err := s.Sync(ctx, s.Layout.Path(queue)); err != nil {
		return err
	}
`,
	new:    ``,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestCheckIsOneReadAfterASync"}},
}}
