// Package netns gives a test a network of its own, made of Linux network
// namespaces: a bridge with the test process, and hosts for servers. Links
// between hosts can be cut in one or both directions, which proxies cannot do
// for ZooKeeper, whose servers exchange their addresses. Packets of a host can
// be swallowed, refused, or lost at random, which needs nft (CanFilter).
//
//	func TestSomething(t *testing.T) {
//		if !netns.Enter(t) {
//			return // it ran in a process of its own
//		}
//		network := netns.New(t, 3)
//		cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 3, Hosts: network.Hosts(), Wrap: network.Wrap})
//		network.Isolate(0)
//
// The namespaces belong to the test's own process and end with it: the
// machine's network is not touched. The process must be root, or the kernel
// must allow user namespaces; otherwise the test is skipped with the reason,
// which the summary lists.
package netns
