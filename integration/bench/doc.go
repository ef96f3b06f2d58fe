// Package bench measures Baton beside the floors of its services and beside
// other libraries, in one run on the same servers.
//
// A case is a load at a place, for example sixteen contenders for one name on
// one etcd. Its subjects play it one after the other, in rounds, in a different
// order each time. The ratios within a round count: a loaded machine slows all
// subjects alike.
//
// A floor is the minimum of requests for any lock: two writes to acquire and
// release; two writes, a watch and its event for a handoff. The floors do just
// that, on as many connections as Baton, in a predetermined order.
//
// Requests, events and bytes are counted in a separate round, through a proxy,
// that is not timed.
package bench
