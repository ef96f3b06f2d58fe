// Package netns gives a test a network of its own, made of Linux network
// namespaces: a bridge that the test process is on, and hosts that servers run
// on. Links between hosts are cut in both directions or in one, which proxies
// cannot do for ZooKeeper, whose servers tell each other their addresses.
//
//	func TestSomething(t *testing.T) {
//		if !netns.Enter(t) {
//			return // it ran in a process of its own
//		}
//		network := netns.New(t, 3)
//		cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 3, Hosts: network.Hosts(), Wrap: network.Wrap})
//		network.Isolate(0)
//
// Everything lives in namespaces of the test's own process and goes with it:
// the machine's network is not touched. The process has to be root, or the
// kernel has to allow user namespaces; where neither is so the test is skipped
// with the reason, which the summary lists.
package netns
