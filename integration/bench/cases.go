package bench

import (
	"context"
	"fmt"
	"strings"
)

// Role says what a subject is to the others.
type Role string

const (
	// Floor is what no lock does without, done with the bare client and no lock.
	Floor Role = "floor"
	// Baton is this library.
	Baton Role = "baton"
	// Peer is another library.
	Peer Role = "peer"
)

// subject is one who plays a load.
type subject struct {
	name string
	role Role
	open func(ctx context.Context, a access, l load) (player, error)
}

// contest is a load on a place with all who play it.
type contest struct {
	name     string
	place    string
	load     load
	subjects []subject
	// least and most bound the number of turns that are measured at once.
	least, most int
	// finer is how many rounds there are for one, 0 being one: where Baton and the floor differ by less than the machine does from one
	// second to the next. Those two have samples that are so much shorter, unless least forbids; the peers take part in one of so many
	// rounds, with full ones. Drains are as long as they are: for them it is more rounds.
	finer int
}

func (c contest) roundsForOne() int { return max(1, c.finer) }

// takesPart is whether subjects of a role play in a round.
func (c contest) takesPart(r Role, round int) bool { return r != Peer || round%c.roundsForOne() == 0 }

// part is how much of the time of a sample is theirs.
func (c contest) part(r Role) float64 {
	if r == Peer {
		return 1
	}
	return 1 / float64(c.roundsForOne())
}

func (c contest) service() string {
	service, _, _ := strings.Cut(c.place, "-")
	return service
}

// parties makes a subject of whatever takes and gives back.
func parties(name string, role Role, open func(ctx context.Context, a access, l load) (party, error)) subject {
	return subject{name, role, func(ctx context.Context, a access, l load) (player, error) {
		p, err := open(ctx, a, l)
		if err != nil {
			return nil, err
		}
		return crowd{p, l}, nil
	}}
}

func baton(name string, r recipe) subject {
	return parties("Baton "+name, Baton, func(ctx context.Context, a access, l load) (party, error) {
		return openBaton(ctx, a, l, r)
	})
}

var (
	etcdMutex = parties("etcd concurrency.Mutex", Peer, openEtcdMutexes)
	goZKLock  = parties("go-zookeeper Lock", Peer, func(ctx context.Context, a access, l load) (party, error) {
		links, err := openZKLinks(ctx, a, l.connections())
		if err != nil {
			return nil, err
		}
		return zkLocks{links}, links.parent("/peer")
	})
)

// bare is the floor of taking and giving back.
func bare(service string) subject {
	if service == "etcd" {
		return parties("bare put and delete", Floor, func(ctx context.Context, a access, l load) (party, error) {
			links, err := openEtcdLinks(ctx, a, l.connections())
			return etcdFloor{links}, err
		})
	}
	return parties("bare create and delete", Floor, func(ctx context.Context, a access, l load) (party, error) {
		links, err := openZKLinks(ctx, a, l.connections())
		if err != nil {
			return nil, err
		}
		return zkFloor{links}, links.parent("/floor")
	})
}

// bareRelay is the floor of handing over.
func bareRelay(service string, f form) subject {
	name := "bare relay"
	if f != drain {
		name = "bare relay with rejoin"
	}
	return subject{name, Floor, func(ctx context.Context, a access, l load) (player, error) {
		if service == "etcd" {
			links, err := openEtcdLinks(ctx, a, l.connections())
			return relay{l, etcdBatons{links}}, err
		}
		links, err := openZKLinks(ctx, a, l.connections())
		return relay{l, newZKBatons(links)}, err
	}}
}

// semaphores are the subjects that know permits.
func semaphores(service string) []subject {
	all := []subject{baton("semaphore", batonSemaphore)}
	if service == "zookeeper" {
		all = append(all, curator("InterProcessSemaphoreV2", "semaphore"))
	}
	return all
}

// locks are the peers' mutexes.
func locks(service string) []subject {
	if service == "etcd" {
		return []subject{etcdMutex}
	}
	return []subject{goZKLock, curator("InterProcessMutex", "mutex")}
}

// crowds are the numbers of contenders for one name.
var crowds = []int{2, 16, 128, 512}

// scale are the numbers of goroutines that take names of their own.
var scale = []int{1, 4, 16, 64, 256}

// contests are the cases of a place, in the order in which they are run.
func contests(place string) []contest {
	service, nodes, _ := strings.Cut(place, "-")
	if nodes == "" {
		return single(service)
	}
	return []contest{pairsOn(place, service), handOver(place, service, turns, 16)}
}

func pairsOn(place, service string) contest {
	c := contest{
		name: "pair/" + place, place: place, load: load{form: pairs, contenders: 1}, least: 50, most: 1000, finer: 5,
		subjects: []subject{bare(service), baton("mutex", batonMutex)},
	}
	if place == service {
		c.finer = 40
		c.subjects = append(c.subjects, baton("rwlock read", batonRead), baton("rwlock write", batonWrite), baton("election", batonElection))
	}
	c.subjects = append(c.subjects, locks(service)...)
	return c
}

func handOver(place, service string, f form, w int) contest {
	subjects := append([]subject{bareRelay(service, f), baton("mutex", batonMutex)}, locks(service)...)
	c := contest{
		name: fmt.Sprintf("%s/%s/%d", f, place, w), place: place, load: load{form: f, contenders: w}, subjects: subjects,
		least: 15, most: 2000, finer: 6,
	}
	if w > 128 { // each sample costs the time to form the line
		c.finer = 4
	}
	if f == drain && w < c.least { // likewise, and a sample is several drains
		c.least, c.finer = 5, 3
	}
	return c
}

func manyNames(place, service string, n int) contest {
	return contest{
		name: "names/" + place, place: place, load: load{form: names, contenders: 64, names: n}, least: 1000, most: 20000, finer: 7,
		subjects: append([]subject{bare(service), baton("mutex", batonMutex)}, locks(service)...),
	}
}

// single are the cases on one node.
func single(service string) []contest {
	all := []contest{
		pairsOn(service, service),
		{
			name: "permit/" + service, place: service, load: load{form: pairs, contenders: 1, permits: 10}, least: 50, most: 1000, finer: 20,
			subjects: append([]subject{bare(service)}, semaphores(service)...),
		},
	}
	for _, f := range []form{drain, turns} {
		for _, w := range crowds {
			all = append(all, handOver(service, service, f, w))
		}
	}
	for _, n := range scale {
		all = append(all, contest{
			name: fmt.Sprintf("scale/%s/%d", service, n), place: service, load: load{form: names, contenders: n, names: 4 * n}, least: 10 * n, most: 20000, finer: 5,
			subjects: []subject{bare(service), baton("mutex", batonMutex)},
		})
	}
	return append(all,
		manyNames(service, service, 1000),
		manyPermits(service),
	)
}

func manyPermits(service string) contest {
	return contest{
		name: "permits/" + service, place: service, load: load{form: permits, contenders: 64, permits: 10}, least: 100, most: 5000,
		subjects: semaphores(service),
	}
}
