package main

import "cmp"

// fault is a row of the track record.
type fault struct {
	name  string
	group string
	what  string // for users
	found string // by a review, a test, a seed of the simulation, a mutant, a report
	// worlds are the services whose simulation finds the fault today when the
	// mend alone is taken back.
	worlds string
	mend   string // the first commit without it, with the test
	pkg    string
	test   string
	now    string // the test's present name, if it has another
}

// today returns the present name of the test.
func (f fault) today() string { return cmp.Or(f.now, f.test) }

var faults = []fault{

	// Holding.
	{
		name: "work-outlives-close", group: "Holding", found: "review", worlds: "memory and ZooKeeper", mend: "08b78bc",
		pkg: "recipes", test: "TestContextOfWorkEndsBeforeTheNameIsGivenAway",
		what: "Close sent the end of the session while the context of the work given to `Do` or `Run` was still open: the next holder began beside that work.",
	},
	{
		name: "work-outlives-release", group: "Holding", found: "review", worlds: "memory and ZooKeeper", mend: "08b78bc",
		pkg: "recipes", test: "TestContextOfWorkEndsBeforeItsReleaseIsSent",
		what: "The same on a release: the entry left the queue before the context of the work had ended.",
	},
	{
		name: "external-lease", group: "Holding", found: "review", worlds: "etcd", mend: "0641a68",
		pkg: "coordinator/etcd", test: "TestExternalLeaseIsRenewedWhenItsSessionOpens",
		what: "A session on a lease of another program counted a whole TTL from its opening, though the lease could have almost nothing left: two live holders.",
	},
	{
		name: "external-term", group: "Holding", found: "review", mend: "c7d0824",
		pkg: "coordinator/etcd", test: "TestExternalSessionNeedsARenewalOfTheTermOfItsSentinel",
		what: "A session on a lease of another program accepted a renewal by a leader that had been deposed.",
	},
	{
		name: "deposed-zookeeper-leader", group: "Holding", found: "review", worlds: "ZooKeeper", mend: "5424596",
		pkg: "coordinator/zookeeper", test: "TestLeaderThatWasDeposedInAPauseAcknowledgesNothing",
		what: "A ZooKeeper leader that had been paused past an election acknowledged one renewal: two holders for 2.4 s.",
	},
	{
		name: "closed-before-told", group: "Holding", found: "review", mend: "1151f2c",
		pkg: "internal/engine", test: "TestNobodyClosesASessionWhoseHoldsDoNotKnowIt",
		what: "Two calls that noticed the end of a session together: one could close it before all holds were notified.",
	},
	{
		name: "late-first-view", group: "Holding", found: "review", worlds: "memory", mend: "b16a1ef",
		pkg: "semaphore", test: "TestLateFirstViewIsJudgedByTheLimitInForce",
		what: "The first view of a queue was judged by the limit of the join, however late it came: 20 of 1 permits were granted after the limit had been lowered.",
	},
	{
		name: "limit-not-confirmed", group: "Holding", found: "review", mend: "b16a1ef",
		pkg: "semaphore", test: "TestChangedLimitIsConfirmedAgain",
		what: "A limit that changed between the join and the grant was not read again.",
	},
	{
		name: "limit-after-data-loss", group: "Holding", found: "review", mend: "9fd4be5",
		pkg: "semaphore", test: "TestLimitIsReadAgainAfterTheServiceLostItsData",
		what: "A new session trusted a limit that it had read before the service lost its data: more permits than the limit.",
	},
	{
		name: "concurrency-stale-unlock", group: "Holding", found: "review", mend: "3f23c49",
		pkg: "recipes/concurrency", test: "TestUnlockAfterALossReleasesNoOtherLock",
		what: "After a loss the `Unlock` of one goroutine released the lock of another one that shared the `Mutex`.",
	},
	{
		name: "late-foreign-forget", group: "Holding", found: "review", mend: "18e502e",
		pkg: "coordinator/etcd", test: "TestLateForeignForgetDeletesNoKeyOfAnother",
		what: "On the layout of etcd's concurrency package a late clean-up deleted the key of another contender of the lease.",
	},
	{
		name: "late-failed-open", group: "Holding", found: "review", mend: "a6d86e6",
		pkg: "coordinator/etcd", test: "TestLateCleanUpOfAFailedOpenDeletesNoSentinel",
		what: "The late clean-up of an Open that had failed ended the session that was opened after it on the same lease.",
	},
	{
		name: "forget-and-read", group: "Holding", found: "review", mend: "c682b60",
		pkg: "coordinator/etcd", test: "TestForgetOvertakesTheReadOfATry", now: "TestForgetOvertakesWhatAJoinDoesFirst",
		what: "A join whose first read was late came after the request that forgot it, and left an entry.",
	},
	{
		name: "stale-watch-event", group: "Holding", found: "review", mend: "bea984e",
		pkg: "coordinator/zookeeper/internal/zkconn", test: "TestEventOfAnEarlierWatchShowsNothing",
		what: "An event of an earlier watch, which a reconnect delivers, counted as a hand-over.",
	},
	{
		name: "max-hold-of-a-set", group: "Holding", found: "review", mend: "c1f65ab",
		pkg: "recipes/multilock", test: "TestLongestHoldCountsFromTheGrantOfTheSet",
		what: "The longest hold of a set's early member counted the wait for the later ones, so that `Lock` failed.",
	},
	{
		name: "max-hold-of-a-leader", group: "Holding", found: "review", mend: "e208718",
		pkg: "recipes", test: "TestElectionsAndGroupsRefuseALongestHold",
		what: "Elections accepted a longest hold, and `Run` then ended for good.",
	},

	// Waiting.
	{
		name: "stalled-member", group: "Waiting", found: "review", worlds: "etcd", mend: "d275e5a",
		pkg: "coordinator/etcd", test: "TestNoWaitRestsOnAMemberThatStopsToApply",
		what: "A waiter rested on one watch at one member. If that member stopped to apply, the waiter and the queue behind it waited for ever.",
	},
	{
		name: "stalled-member-first", group: "Waiting", found: "review", mend: "d275e5a",
		pkg: "coordinator/etcd", test: "TestNoWaitBeginsForGoodOnAMemberThatStopsToApply",
		what: "The same for a wait that begins at such a member.",
	},
	{
		name: "unanswered-read", group: "Waiting", found: "review", worlds: "etcd", mend: "d275e5a",
		pkg: "coordinator/etcd", test: "TestNoWaitRestsOnAnUnansweredRead",
		what: "The read after a watch's creation had no bound of its own: a member that does not answer stopped the waiter for ever.",
	},
	{
		name: "loss-at-a-stalled-member", group: "Waiting", found: "review", mend: "d275e5a",
		pkg: "coordinator/etcd", test: "TestAWaiterNoticesTheEndOfItsSessionDespiteAStalledMember",
		what: "A waiter at a member that stopped to apply did not notice the end of its own session.",
	},
	{
		name: "watch-without-token", group: "Waiting", found: "review", worlds: "etcd", mend: "d275e5a",
		pkg: "coordinator/etcd", test: "TestWatchesLeaveAStreamWithoutAToken",
		what: "After authentication was switched on, each wait of a running client was refused.",
	},
	{
		name: "lock-delay-for-ever", group: "Waiting", found: "review", mend: "b534d4b",
		pkg: "mutex", test: "TestLockDelayPassesForProcessesThatGiveUp",
		what: "The lock-delay began anew for each process that tried: after one crash, attempts that do not wait were refused for ever.",
	},
	{
		name: "lock-delay-by-clock", group: "Waiting", found: "review", mend: "b534d4b",
		pkg: "mutex", test: "TestLockDelayIsNotShorterWhereClocksDiffer",
		what: "The same with clocks that differ.",
	},
	{
		name: "lock-delay-of-nobody", group: "Waiting", found: "review", mend: "b534d4b",
		pkg: "mutex", test: "TestCancelledLockLeavesNoNote",
		what: "A `Lock` that was cancelled while it noted its hold made the next contender wait, though nobody had held.",
	},
	{
		name: "lock-delay-rounded", group: "Waiting", found: "review", mend: "b534d4b",
		pkg: "mutex", test: "TestLockDelayIsRoundedUp",
		what: "A lock-delay with a part of a millisecond was rounded down.",
	},
	{
		name: "lock-delay-warning", group: "Waiting", found: "review", mend: "aab0378",
		pkg: "mutex", test: "TestLogSaysNothingOfAReleaseWhoseReplyWasLost",
		what: "A release whose reply was lost logged a warning of a lock-delay that does not come.",
	},
	{
		name: "join-epochs", group: "Waiting", found: "review", mend: "2ab5888",
		pkg: "coordinator/etcd", test: "TestDeadlinesThatEndDuringJoinsKeepTheEpoch",
		what: "Each deadline that ended during a join raised the session's epoch, which refused all other joins of the client: thousands of errors on a healthy service.",
	},
	{
		name: "joins-forgotten", group: "Waiting", found: "review", mend: "2ab5888",
		pkg: "internal/engine", test: "TestDeadlinesThatEndDuringJoinsForgetNothing",
		what: "The same seen from the engine: contenders were forgotten whose joins were about to be answered.",
	},
	{
		name: "try-beside-acquisitions", group: "Waiting", found: "review", mend: "9ba317a",
		pkg: "semaphore", test: "TestTryFindsAFreePermitBesideAcquisitions",
		what: "On Curator's and Kazoo's layouts `TryAcquire` failed although permits were free.",
	},
	{
		name: "limit-error", group: "Waiting", found: "review", mend: "2e48f43",
		pkg: "semaphore", test: "TestAcquireBesideSetLimitOfItsSemaphoreIsNoError",
		what: "`Acquire` beside `SetLimit` of the same object failed with an error about another limit.",
	},
	{
		name: "follower-after-data-loss", group: "Waiting", found: "review", mend: "924d936",
		pkg: "recipes", test: "TestFollowerShowsLeadersAfterTheServiceLostItsData",
		what: "`Observe` never showed a new leader after the service had lost its data.",
	},
	{
		name: "follower-same-version", group: "Waiting", found: "review", mend: "b05f6a8",
		pkg: "recipes", test: "TestFollowerShowsALeaderWithTheVersionOfAnEarlierOne",
		what: "`Observe` did not show a leader whose record had the version of an earlier one's.",
	},
	{
		name: "follower-layout", group: "Waiting", found: "review", mend: "7b78cde",
		pkg: "recipes", test: "TestFollowerGoesOnIfItCannotConfirmAHead",
		what: "`Observe` ended with an error on layouts without records.",
	},
	{
		name: "follower-spins", group: "Waiting", found: "review", mend: "1132126",
		pkg: "recipes", test: "TestFollowerPausesWhileEachSessionIsLostAtOnce",
		what: "`Observe` opened a hundred sessions in ten seconds where each was lost at once.",
	},
	{
		name: "record-same-version", group: "Waiting", found: "review", mend: "6739199",
		pkg: "recipes", test: "TestWaitForARecordSeesOneWithTheVersionOfTheLast",
		what: "A wait for another record missed one that was written while the session was lost and replaced.",
	},
	{
		name: "campaign-backoff", group: "Waiting", found: "review", mend: "cc09600",
		pkg: "election", test: "TestRefusedCampaignsBackOff",
		what: "The pause of `Run` between refused campaigns never grew: its own length counted as success.",
	},
	{
		name: "blocked-report", group: "Waiting", found: "review", mend: "cc09600",
		pkg: "election", test: "TestBlockedReportOfAnOutageDelaysNoTerm",
		what: "A report function that blocked delayed the next term.",
	},
	{
		name: "quorum-identities", group: "Waiting", found: "review", mend: "3af91fa",
		pkg: "recipes/multilock/quorum", test: "TestClientsOfACallerMayHaveDifferentIdentities",
		what: "A quorum whose clients had different identities took its own entries for those of others.",
	},
	{
		name: "gate-queue", group: "Waiting", found: "review", mend: "a3925f0",
		pkg: "coordinator/fence", test: "TestWaiterIsRefusedAtOnce",
		what: "A stale caller that waited at a gate waited on after a greater token had been shown.",
	},
	{
		name: "grpc-stream", group: "Waiting", found: "review", mend: "65074e8",
		pkg: "coordinator/fence/grpcfence", test: "TestStreamEndsWhenItsTokenIsStale",
		what: "The token of a gRPC stream was checked at its opening only: a stale holder wrote through it for ever.",
	},

	// Services and networks.
	{
		name: "close-with-credentials", group: "Services and networks", found: "review", worlds: "ZooKeeper", mend: "d8fc48b",
		pkg: "coordinator/zookeeper", test: "TestCloseWorksWhereServersDemandCredentials",
		what: "`Close` failed where ZooKeeper's servers demand credentials, and the names stayed locked for the TTL.",
	},
	{
		name: "close-not-repeated", group: "Services and networks", found: "review", worlds: "etcd", mend: "43c3d31",
		pkg: "internal/engine", test: "TestCloseIsSentAgainWhileItIsNotAnswered",
		what: "A `Close` that got no answer was not sent again.",
	},
	{
		name: "close-external", group: "Services and networks", found: "review", mend: "43c3d31",
		pkg: "coordinator/etcd", test: "TestCloseOfExternalSessionGoesOnInTheBackground",
		what: "One failed attempt to close a session on another program's lease left the entries for the life of the lease.",
	},
	{
		name: "outage-dials", group: "Services and networks", found: "review", worlds: "ZooKeeper", mend: "08523ce",
		pkg: "coordinator/zookeeper", test: "TestLongOutageIsDialledSeldom",
		what: "In an outage each client dialled every server ten times a second for as long as it lasted.",
	},
	{
		name: "unused-queue", group: "Services and networks", found: "review", mend: "7d3d59e",
		pkg: "coordinator/zookeeper", test: "TestAttemptThatEndsBeforeItsJoinLeavesNoQueue",
		what: "An attempt that ended between the creation of its queue and its join left a container that is never removed.",
	},
	{
		name: "first-joins-at-once", group: "Services and networks", found: "review", mend: "7826a7f",
		pkg: "coordinator/zookeeper", test: "TestFirstJoinsAtAnOldServerGetPlainNodes",
		what: "Of calls that learned together that a server has no containers all but one failed.",
	},
	{
		name: "truncated-reply", group: "Services and networks", found: "review", mend: "c81e7dd",
		pkg: "coordinator/zookeeper", test: "TestJoinWhoseReplyEndsTooSoonMayHaveJoined",
		what: "A reply that was cut short was reported as an invalid argument, and a join that may have been applied was not cleaned up.",
	},
	{
		name: "name-server", group: "Services and networks", found: "review", mend: "5bc7325",
		pkg: "coordinator/zookeeper/internal/zkconn", test: "TestUserIsToldThatNoNameServerAnswers",
		what: "An outage of the name servers was reported as a deadline, without the cause.",
	},
	{
		name: "nested-namespace", group: "Services and networks", found: "review", mend: "c15c2cd",
		pkg: "coordinator/zookeeper", test: "TestNamespaceInAnothersQueuesHasItsOwn",
		what: "A namespace below another's queues made that client's lock fail, with the advice to delete a live lock's node.",
	},
	{
		name: "two-clusters", group: "Services and networks", found: "review", mend: "84f3f14",
		pkg: "coordinator/etcd", test: "TestMembersOfTwoClustersAreRefused",
		what: "Members of two etcd clusters in one URL: thousands of sessions were lost, and no error said why.",
	},
	{
		name: "term-zero", group: "Services and networks", found: "review", mend: "8c12549",
		pkg: "coordinator/etcd", test: "TestOnlyAnOlderTermRefusesAKeepAlive",
		what: "A server that shows no raft term had all its renewals refused.",
	},
	{
		name: "foreign-try", group: "Services and networks", found: "review", mend: "3fd2052",
		pkg: "coordinator/etcd", test: "TestForeignTryAfterTheHolderWasReadIsTaken",
		what: "On the layout of etcd's concurrency package a try beside a holder could be an error instead of \"taken\".",
	},
	{
		name: "long-queue", group: "Services and networks", found: "review", mend: "b5a2cef",
		pkg: "coordinator/etcd", test: "TestJoinsCompareFewKeysOfALongQueue",
		what: "Each join of a semaphore compared the whole queue where etcd applies changes: 18 ms at 3,000 entries.",
	},
	{
		name: "record-writes", group: "Services and networks", found: "review", mend: "51a0366",
		pkg: "coordinator/etcd", test: "TestRecordOfAnySessionCostsOneRead",
		what: "Reading a counter or a barrier cost etcd a write.",
	},
	{
		name: "namespace-per-host", group: "Services and networks", found: "review", mend: "a5e49e1",
		pkg: "coordinator/driver", test: "TestNamespaceAfterEachHostIsRefused",
		what: "A namespace after each host of a URL opened as one server and an odd namespace: no exclusion with the others.",
	},
	{
		name: "bad-hosts", group: "Services and networks", found: "review", mend: "a5e49e1",
		pkg: "coordinator/driver", test: "TestHostsThatCannotBeReachedAreRefused",
		what: "IPv6 addresses without brackets opened, and looked like an outage.",
	},
	{
		name: "bad-names", group: "Services and networks", found: "review", mend: "a5e49e1",
		pkg: "coordinator/zookeeper/internal/foreign", test: "TestNamesThatZooKeeperRefusesAreInvalid",
		what: "Names that ZooKeeper refuses were accepted on shared layouts.",
	},

	// Calls and costs.
	{
		name: "applied-but-nothing-held", group: "Calls and costs", found: "review", mend: "ecd5b5b",
		pkg: "recipes", test: "TestErrorOfAFailedAcquireSaysWhatIsTrue",
		what: "A failed `Lock` said \"may have been applied\", though its caller holds nothing.",
	},
	{
		name: "released-or-lost", group: "Calls and costs", found: "review", mend: "ecd5b5b",
		pkg: "recipes", test: "TestErrAfterTheReleaseOfALostHoldIsTheLoss",
		what: "After the `Unlock` of a lost lock, `Err` said \"released\".",
	},
	{
		name: "own-change-unknown", group: "Calls and costs", found: "review", mend: "f61136f",
		pkg: "recipes/counter", test: "TestCallThatGivesUpAWriteOfOthers",
		what: "A call that had sent only changes of others said that its own may have been applied.",
	},
	{
		name: "counter-writes", group: "Calls and costs", found: "review", mend: "65a3959",
		pkg: "recipes/counter", test: "TestCallsOfOneCounterShareWrites",
		what: "Goroutines that add to one `Counter` were as slow as one: each addition was a write.",
	},
	{
		name: "nested-contexts", group: "Calls and costs", found: "review", mend: "c1f65ab",
		pkg: "recipes/multilock", test: "TestContextsOfSetsInSetsAskTheCallersOnce",
		what: "A lookup in the context of nested sets cost n to the power of the depth.",
	},
	{
		name: "many-names", group: "Calls and costs", found: "review", mend: "c1f65ab",
		pkg: "recipes/multilock", test: "TestLockOfManyNamesAsksTheContextLinearly",
		what: "Locking n names cost n² lookups in the context.",
	},

	// The command.
	{
		name: "children-at-the-deadline", group: "The command", found: "review", mend: "1b6c857",
		pkg: "cmd/baton/internal/cli", test: "TestRestGetsSIGKILLAtTheDeadline",
		what: "Processes that were left of a command outlived the hold: nothing ended them at the deadline.",
	},
	{
		name: "children-and-signals", group: "The command", found: "review", mend: "1b6c857",
		pkg: "cmd/baton/internal/cli", test: "TestSignalReachesTheRest",
		what: "A signal to the command did not reach them.",
	},
	{
		name: "script-without-shell", group: "The command", found: "review", mend: "1b6c857",
		pkg: "cmd/baton/internal/cli", test: "TestScriptWithoutItsShellRuns",
		what: "A script without a first line `#!` could not be run.",
	},
	{
		name: "loss-messages", group: "The command", found: "review", mend: "1b6c857",
		pkg: "cmd/baton/internal/cli", test: "TestLossIsReportedOnceAfterAStop",
		what: "After a stop the command reported the loss of its hold twice.",
	},
	{
		name: "signal-during-a-loss", group: "The command", found: "review", mend: "c205774",
		pkg: "cmd/baton/internal/cli", test: "TestSignalDuringALossEndsTheCampaigns",
		what: "A signal that came while a term was lost did not end the campaigns.",
	},
	{
		name: "signal-at-the-grant", group: "The command", found: "review", mend: "c205774",
		pkg: "cmd/baton/internal/cli", test: "TestSignalAtTheEndOfTheWaitIsNotLost",
		what: "A signal that came at the end of the wait was lost.",
	},
	{
		name: "terminal-of-the-dead", group: "The command", found: "review", mend: "7c46945",
		pkg: "cmd/baton/internal/ward", test: "TestTerminalIsTakenBackFromAGroupThatHasEnded",
		what: "The terminal was not taken back from a process group that had ended.",
	},
	{
		name: "first-process", group: "The command", found: "review", mend: "64f2e68",
		pkg: "cmd/baton/internal/ward", test: "TestFirstProcessReturnsFromRaise",
		what: "As the first process of a container the command lost its exit code.",
	},
	{
		name: "doctor-and-grace", group: "The command", found: "review", mend: "04bc3b8",
		pkg: "cmd/baton/internal/cli", test: "TestDoctorShowsTheOutageThatCommandsSurvive",
		what: "`doctor` promised an outage that commands with a grace do not survive.",
	},
}
