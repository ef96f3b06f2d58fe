package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// lane is a list of steps that run one after the other, beside the other lanes.
type lane string

const (
	// raced and plain are for steps with and without the race detector: two
	// lanes never compile the same code at a time.
	raced lane = "raced"
	plain lane = "plain"
	// served is for tests on real servers, which wait most of the time. The
	// other lanes give way to them: time is virtual in nearly all of their
	// tests.
	served lane = "served"
	// alone is for steps that run when all others have ended.
	alone lane = "alone"
)

// step is one go test.
type step struct {
	name, why string
	lane      lane     // empty: raced or plain
	dir       string   // of the module, below the project's root
	packages  []string // patterns, then import paths
	listed    []goPackage
	without   string // an expression: packages that match it are left out
	race      bool
	cached    bool // the go command may know the result
	parallel  int
	run, skip string // names of tests, as with go test
	timeout   string // of each package; empty: half an hour
	env       []string
}

// parts are the modules whose tests need no server, besides the library.
var parts = []string{"contrib", "coordinator/observe/otelobserve", "coordinator/observe/promobserve", "coordinator/redis", "coordinator/sql", "cmd/baton"}

// Files whose tests belong to the matrix: faults of servers and networks, kills
// and partitions of clients, long runs, durations, other versions, other
// libraries, our own release scripts, and what compiles other projects.
var matrixFiles = []string{
	"adapters_test.go",
	"faults_*_test.go", "chaos_test.go", "multilock_test.go",
	"outages_test.go", "partition_test.go", "pauses_test.go", "soak_test.go",
	"conformance_shared_test.go", "upgrade_test.go", "*_figures_test.go",
	"sql/faults_*_test.go", "redis/faults_*_test.go",
	"interop/*_test.go", "bench/*_test.go", "release/*_test.go",
}

// plan returns the steps of a ring whose names match an expression.
func plan(root, ring, only string) (steps []step, err error) {
	matrix, err := matrixTests(filepath.Join(root, "integration"))
	if err != nil {
		return nil, err
	}
	switch ring {
	case "check":
		steps = documents()
	case "test":
		steps = slices.Concat(servers(matrix+"|"+restarts, false),
			library([]string{"BATON_SEEDS=10"}, enumerations), racedWorlds("40", "10"), modules(nil),
			exceptions(), enumerated(), recipeWorlds("60"), worlds("1200", "40"), zooKeeperWorlds("600"), virtual(false), etcdWorlds("300"))
	case "all":
		all := []string{"BATON_TESTS=all"}
		steps = slices.Concat(servers(matrix, true),
			library(all, ""), racedWorlds("1000", "100"), modules(all),
			exceptions(), worlds("20000", "1000"), zooKeeperWorlds("20000"), recipeWorlds("500"), virtual(true), etcdWorlds("20000"), support(), faults(matrix))
	default:
		return nil, fmt.Errorf("ring %q: want check, test or all", ring)
	}
	if steps, err = matching(steps, only); err != nil {
		return nil, err
	}
	for i := range steps {
		if err := steps[i].expand(root); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// library is everything in the library's module that needs no server. Documents
// have their own check.
func library(env []string, skip string) []step {
	return []step{{
		name: "library", why: "unit tests and the suite on memory, with the race detector",
		dir: ".", packages: []string{"./..."}, without: "/docs(/|$)", race: true, cached: true, skip: skip, env: env,
	}}
}

// enumerations are tests that try one protocol in hundreds of places, or with
// thousands of callers: half of what the library's tests cost with the race
// detector, which sees the same code in the others. So make test has them
// without it.
const enumerations = "^(" +
	"TestWriterDiesAtAnyStep|TestAllMembersAreReplacedTogether|TestPlannerThatDiesInItsTurn|" +
	"TestMemberThatCrashesAfterItsStartTakesNoShards|TestMembersThatLeaveTogether|TestMembersJoinLeaveAndDie|" +
	"TestSharedPermitsAreWithinTheLimit|TestAcquireCancelledAtAnyRequestLeavesNothing|" +
	"TestWaitersAreServedWhenTheSharedWatchEnds|TestHandOverOnTheSharedWatchCostsThreeRequests|" +
	"TestDeadlinesThatEndDuringJoinsForgetNothing|TestCancellationsDuringJoinsForgetOneContender|" +
	"TestDeadlinesThatEndDuringJoinsKeepTheEpoch|TestFirstEntryOfALongQueueIsReadAlone|" +
	"TestClientsThatLockInTurnPayNothing|TestLockDelayUnderLostRequestsAndReplies|TestKeptTurnsAreSharedFairly|" +
	"TestSharedReadsNeedFewRequests)$"

// enumerated runs the enumerations.
func enumerated() []step {
	return []step{{
		name: "enumerations", why: "tests that try a protocol in hundreds of places",
		dir: ".", packages: []string{"./recipes/partition", "./semaphore", "./internal/engine", "./coordinator/etcd", "./mutex", "./rwlock"},
		run: enumerations, cached: true, env: []string{"BATON_SEEDS=10"},
	}}
}

// modules are the unit tests of the parts.
func modules(env []string) (steps []step) {
	for _, dir := range parts {
		steps = append(steps, step{name: dir, why: "unit tests, with the race detector", dir: dir, packages: []string{"./..."}, race: true, cached: true, env: env})
	}
	return steps
}

// exceptions are tests that the race detector cannot have.
func exceptions() []step {
	return []step{{
		name: "without races", why: "tests in which the race detector crashes, or finds a race of a client library",
		dir: ".", packages: []string{"./internal/engine", "./coordinator/zookeeper"}, run: "AreBounded|WhileConnectionsFail", cached: true,
	}}
}

// racedWorlds are those that the race detector sees: some on memory, as many on
// ZooKeeper, and so many of each recipe on the core of the contract.
func racedWorlds(seeds, core string) []step {
	return []step{{
		name: "worlds and races", why: seeds + " simulated worlds on each of memory and ZooKeeper, and on the core of the contract, with the race detector",
		dir: "integration", packages: []string{"./simulation", "./internal/simulation"}, race: true, cached: true, skip: onEtcd + "|" + replays,
		env: []string{"BATON_SEEDS=" + seeds, "BATON_SIM_CORE=" + core},
	}}
}

// worlds are the simulation on memory, and so many worlds of each recipe on the
// core of the contract. Recipes and engine are the same in the worlds on etcd
// and ZooKeeper.
func worlds(seeds, core string) []step {
	return []step{{
		name: "worlds", why: seeds + " simulated worlds, the same in each run",
		dir: "integration", packages: []string{"./simulation"}, run: "^(TestSimulationOnMemory|TestSimulationOnTheCore)$|" + replays,
		env: []string{"BATON_SEEDS=" + seeds, "BATON_SIM_CORE=" + core},
	}}
}

// replays is the test that seeds can be replayed. It needs twice as many
// worlds, and finds no races.
const replays = "^TestSameSeedIsSameWorld$"

// onEtcd is the test of the worlds on a real etcd.
const onEtcd = "^TestSimulationOnEtcd$"

// etcdWorlds are the simulation on a real etcd, in two processes: each has one
// etcd at a time. They are the last of their lane: when the other ones have
// ended, they use both processors.
func etcdWorlds(seeds string) []step {
	return []step{{
		name: "worlds on etcd", why: seeds + " worlds on a real etcd in virtual time",
		dir: "integration", packages: []string{"./simulation"}, run: onEtcd, timeout: "2h",
		env: []string{"BATON_SEEDS=" + seeds, "BATON_SIM_PROCESSES=2"},
	}}
}

// zooKeeperWorlds are worlds on a ZooKeeper in virtual time.
func zooKeeperWorlds(seeds string) []step {
	return []step{{
		name: "worlds on ZooKeeper", why: seeds + " simulated worlds with the driver and the client library, and as many in layouts of other clients, the same in each run",
		dir: "integration", packages: []string{"./simulation"}, run: "^(TestSimulationOnZooKeeper|TestSimulationOnSharedQueues)$", env: []string{"BATON_SEEDS=" + seeds},
	}}
}

// recipeWorlds are worlds without the race detector, which sees some of them in
// the library's tests. They need no servers' code, and come before the steps
// that do: the first of all is compiling that.
func recipeWorlds(seeds string) []step {
	return []step{{
		name: "worlds of recipes", why: seeds + " for partitions, counters, onces, barriers, the quorum and deadlocks",
		dir: ".", packages: []string{"./recipes", "./recipes/partition", "./recipes/counter", "./recipes/once", "./recipes/barrier", "./recipes/doublebarrier", "./recipes/multilock/quorum"},
		run: "^(TestPartitionUnderFaults|TestCallsAreLinearizable|TestWorkRunsOncePerKeyUnderFaults|TestRoundsUnderFaults|TestCallsAgreeWithTheHistoryOfTheRecord|TestQuorumUnderFaults|TestDeadlocksInRandomWorlds)$",
		env: []string{"BATON_SEEDS=" + seeds},
	}}
}

// documents are the tests of what is not code, and of the tools of the tests.
func documents() []step {
	return []step{
		{name: "docs", why: "the pages' Go, commands, links and words", dir: ".", packages: []string{"./docs/..."}, cached: true},
		{name: "analyzer", why: "the faults that batonvet finds, and those that it does not invent", dir: "cmd/batonvet", packages: []string{"./..."}, cached: true},
		{name: "documents", why: "names, YAML, workflows, the tables of mutants and of rings", dir: "integration", packages: []string{"./documents", "./cmd/..."}},
	}
}

// support are the tests of what the tests on real servers use.
func support() []step {
	return []step{{
		name: "support", why: "processes, servers and histories of the tests on real servers, with the race detector", lane: alone,
		dir: "integration", packages: []string{"./internal/..."}, without: "/(virtualetcd|virtualzk|simulation)$", race: true,
	}}
}

// virtual are scripted faults in virtual time, the services that they use, one
// of them compared with a real one.
func virtual(all bool) []step {
	s := step{
		name: "virtual", why: "scripted faults on etcd and ZooKeeper in virtual time, and these two themselves",
		dir: "integration", packages: []string{"./scripted", "./internal/virtualetcd", "./internal/virtualzk"}, race: all,
	}
	if all {
		s.env = []string{"BATON_TESTS=all"}
	}
	return []step{s}
}

// restarts are cases of the suite that restart all members during a wait. On
// three real members make test has those of one wait, Watch. It has all on one
// member, and on three members of a ZooKeeper in virtual time; what members
// keep on their disks does not depend on who waits.
const restarts = "^TestConformance$/-3$/./^(Follow|WatchQueue|Head|Record):_(a_change_after_a_restart|a_broken_connection_or_a_restart)"

// servers are the tests on real servers, but for the tests to skip. Most of
// them wait for servers, so more run at a time than there are processors.
func servers(skip string, race bool) []step {
	return []step{{
		name: "servers", why: "conformance, recipes and the command on real servers", lane: served,
		dir: "integration", packages: []string{".", "./sql", "./redis", "./examples"},
		race: race, parallel: 8, skip: skip,
	}}
}

// faults is the matrix. Its tests start clusters of their own: two at a time.
func faults(matrix string) []step {
	return []step{{
		name: "matrix", why: "faults, long runs, other versions and libraries, with the race detector", lane: alone,
		dir: "integration", packages: []string{".", "./sql", "./redis", "./interop", "./bench", "./release"},
		race: true, parallel: 2, run: matrix, timeout: "90m", env: []string{"BATON_TESTS=all"},
	}}
}

// matrixTests returns an expression for the names of the matrix's tests.
func matrixTests(dir string) (string, error) {
	var names []string
	for _, pattern := range matrixFiles {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			found, err := testsIn(goPackage{Dir: filepath.Dir(file), TestGoFiles: []string{filepath.Base(file)}})
			if err != nil {
				return "", err
			}
			names = append(names, found...)
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no tests of the matrix in %s", dir)
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

// expand sets the step's lane, and replaces its patterns by the packages that
// they match.
func (s *step) expand(root string) error {
	switch {
	case s.lane != "":
	case s.race:
		s.lane = raced
	default:
		s.lane = plain
	}
	without, err := regexp.Compile(s.without)
	if err != nil {
		return err
	}
	packages, err := listPackages(filepath.Join(root, s.dir), s.packages)
	if err != nil {
		return fmt.Errorf("the packages of %s: %w", s.name, err)
	}
	s.packages = nil
	for _, p := range packages {
		if s.without == "" || !without.MatchString(p.ImportPath) {
			s.packages, s.listed = append(s.packages, p.ImportPath), append(s.listed, p)
		}
	}
	return nil
}

// args are the arguments of go test before the packages.
func (s step) args() (args []string) {
	args = []string{"-vet=off", "-timeout=" + cmp.Or(s.timeout, "30m")} // make check vets
	if !s.cached {
		args = append(args, "-count=1")
	}
	if s.race {
		args = append(args, "-race")
	}
	if s.parallel > 0 {
		args = append(args, fmt.Sprintf("-parallel=%d", s.parallel))
	}
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-skip="+s.skip)
	}
	return args
}
