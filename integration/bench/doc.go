// Package bench measures Baton beside the floors of its services and beside
// other libraries, in one run on the same servers.
//
// A case is a load on a place: sixteen contenders for one name on one etcd,
// say. Its subjects play it one after the other, in rounds, each in another
// order. What counts are ratios inside a round: a busy machine slows all alike.
//
// A floor is what no lock does without. To take and give back, two writes. For
// a handoff, two writes, a watch and its event. The floors do just that, on as
// many connections as Baton, in an order that was agreed upon beforehand.
//
// Requests, events and bytes are counted in a round of its own, through a
// proxy, which is not timed.
package bench
