// Package live has a test of the adapters on a real service, which needs the
// tag live and a server: integration's TestAdaptersOnRealServers starts one. So
// the other tests of this module need not compile the drivers.
package live
