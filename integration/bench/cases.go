package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/baton-go/baton/rwlock"
)

// Role is a subject's role in the comparison.
type Role string

const (
	// Floor is the minimum of requests for any lock, made with the bare client
	// and without a lock.
	Floor Role = "floor"
	// Baton is this library.
	Baton Role = "baton"
	// Peer is another library.
	Peer Role = "peer"
)

// subject is an implementation that plays a load.
type subject struct {
	name string
	role Role
	// coarse subjects take part in few rounds, with long samples: those without
	// a tight bar, and Curator, whose samples cost more.
	coarse bool
	open   func(ctx context.Context, a access, l load) (player, error)
}

// contest is a load at a place with all its subjects.
type contest struct {
	name     string
	place    string
	load     load
	subjects []subject
	// least and most bound the number of grants per sample.
	least, most int
	// history is how many grants precede all measurements, for clients that
	// cache names.
	history int
	// finer multiplies the rounds (0 means 1), for subjects that differ by less
	// than the machine's speed does from one second to the next. The samples
	// are shorter by the same factor, unless least forbids it.
	finer int
	// even makes the peers take part in all rounds, for bars that compare Baton
	// with them closely. Otherwise they take part in one of finer rounds, with
	// full samples.
	even bool
}

func (c contest) roundsForOne() int { return max(1, c.finer) }

// seldom reports whether a subject takes part in only one of finer rounds.
func (c contest) seldom(s subject) bool { return s.coarse || s.role == Peer && !c.even }

func (c contest) takesPart(s subject, round int) bool {
	return round%c.roundsForOne() == 0 || !c.seldom(s)
}

// part is the subject's share of a sample's time.
func (c contest) part(s subject) float64 {
	if c.seldom(s) {
		return 1
	}
	return 1 / float64(c.roundsForOne())
}

func (c contest) service() string {
	service, _, _ := strings.Cut(c.place, "-")
	return service
}

// parties makes a subject of an implementation that acquires and releases.
func parties(name string, role Role, open func(ctx context.Context, a access, l load) (party, error)) subject {
	return subject{name, role, false, func(ctx context.Context, a access, l load) (player, error) {
		p, err := open(ctx, a, l)
		if err != nil {
			return nil, err
		}
		return contention{p, l}, nil
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

// bare is the floor of an acquire and a release.
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

// bareRelay is the floor of a handoff.
func bareRelay(service string) subject {
	return subject{"bare relay", Floor, false, func(ctx context.Context, a access, l load) (player, error) {
		if service == "etcd" {
			links, err := openEtcdLinks(ctx, a, l.connections())
			return relay{l, etcdRelayKeys{links}}, err
		}
		links, err := openZKLinks(ctx, a, l.connections())
		return relay{l, newZKRelayKeys(links)}, err
	}}
}

// semaphores are the subjects with permits.
func semaphores(service string) []subject {
	all := []subject{baton("semaphore", batonSemaphore)}
	if service == "zookeeper" {
		all = append(all, curator("InterProcessSemaphoreV2", "semaphore"))
	}
	return all
}

// goLock is the peer's mutex in Go; locks are all peers' mutexes.
func goLock(service string) subject {
	if service == "etcd" {
		return etcdMutex
	}
	return goZKLock
}

func locks(service string) []subject {
	if service == "etcd" {
		return []subject{etcdMutex}
	}
	return []subject{goZKLock, curator("InterProcessMutex", "mutex")}
}

// contenderCounts are the numbers of contenders for one name.
var contenderCounts = []int{2, 16, 128, 512}

// scale are the numbers of goroutines of one client with their own names.
var scale = []int{4, 16, 64, 256}

// contests returns the cases of a place in the order in which they run.
func contests(place string) []contest {
	service, nodes, _ := strings.Cut(place, "-")
	if nodes != "" {
		return []contest{pairsOn(place, service), handoff(place, service, 16)}
	}
	all := []contest{pairsOn(service, service), permit(service)}
	for _, w := range contenderCounts {
		all = append(all, handoff(service, service, w))
	}
	for _, n := range scale {
		all = append(all, ownNames(service, n))
	}
	return append(all, fleetOf(service, fleet), fleetOf(service, fresh), manyPermits(service),
		manyReaders(service))
}

func pairsOn(place, service string) contest {
	c := contest{
		name: "pair/" + place, place: place, load: load{form: pairs, contenders: 1},
		least: 50, most: 1000, finer: 20, even: true,
		subjects: append([]subject{bare(service), baton("mutex", batonMutex)}, locks(service)...),
	}
	if place != service {
		c.finer = 8
		return c
	}
	for _, s := range []subject{baton("rwlock read", batonRead), baton("election", batonElection)} {
		s.coarse = true
		c.subjects = append(c.subjects, s)
	}
	return c
}

func handoff(place, service string, w int) contest {
	subjects := []subject{bareRelay(service), baton("mutex", batonMutex)}
	c := contest{
		name: fmt.Sprintf("turns/%s/%d", place, w), place: place, load: load{form: turns, contenders: w},
		subjects: append(subjects, locks(service)...),
		least:    15, most: 2000, finer: 6,
		even: w == 2 && service == "zookeeper", // on etcd the peer needs seconds
	}
	if w > 128 { // each sample costs the time to form the queue
		c.finer = 4
	}
	return c
}

func permit(service string) contest {
	return contest{
		name: "permit/" + service, place: service,
		load: load{form: pairs, contenders: 1, permits: 10}, least: 50, most: 1000, finer: 5,
		subjects: append([]subject{bare(service)}, semaphores(service)...),
	}
}

// ownNames has goroutines of one client, each with four names of its own.
func ownNames(service string, n int) contest {
	return contest{
		name: fmt.Sprintf("scale/%s/%d", service, n), place: service,
		load:  load{form: names, contenders: n, names: 4 * n, clients: 1},
		least: 10 * n, most: 20000, finer: 4, even: true,
		subjects: []subject{bare(service), baton("mutex", batonMutex), goLock(service)},
	}
}

// fleetOf has 64 processes from the service's view: a connection and a session
// for each. In the form fleet they share 1,000 names; in the form fresh each
// name is used once.
func fleetOf(service string, f form) contest {
	c := contest{
		name: fmt.Sprintf("%s/%s", f, service), place: service,
		load:  load{form: f, contenders: 64, clients: 64},
		least: 1000, most: 20000, finer: 3, even: true,
		subjects: []subject{bare(service), baton("mutex", batonMutex), goLock(service)},
	}
	if f == fleet {
		c.load.names, c.history = 1000, 30_000 // each client uses names again
	}
	return c
}

// manyReaders has 64 readers in four processes, and a writer in a fifth.
func manyReaders(service string) contest {
	return contest{
		name: "readers/" + service, place: service,
		load:  load{form: readers, contenders: readerClients * 16, clients: readerClients + 1},
		least: 1000, most: 20000,
		subjects: []subject{baton("rwlock", batonReads()), baton("rwlock shared reads", batonReads(rwlock.WithSharedReads()))},
	}
}

func manyPermits(service string) contest {
	return contest{
		name: "permits/" + service, place: service,
		load:  load{form: permits, contenders: 64, permits: 10},
		least: 100, most: 5000,
		subjects: semaphores(service),
	}
}
