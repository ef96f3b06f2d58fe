// Package bench measures Baton beside the floors of its services and beside other libraries, in one run on the same servers.
//
// A case is a load on a place: sixteen contenders that take turns on one etcd, say. Its subjects play it one after the other,
// in rounds, each in another order. What counts are ratios inside a round: a busy machine slows all alike.
//
// A floor is what no lock does without. To take and give back, two writes. To hand over, the write that gives back and the event
// that tells the next; where contenders join again, the write of that and a watch as well. The floors do just that, on
// as many connections as Baton, in an order that was agreed upon beforehand so that nobody has to look.
//
// Requests, events and bytes are counted in a round of its own, through a proxy, which is not timed.
package bench
