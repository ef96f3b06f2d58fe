package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Remove removes a node from the cluster, as an operator does to replace a
// machine. Its process ends by itself.
func (c *Cluster) Remove(ctx context.Context, n *Node) error {
	client, err := c.Client(c.others(n)...)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.Name == n.Name() {
			_, err := client.MemberRemove(ctx, m.ID)
			return err
		}
	}
	return fmt.Errorf("etcdserver: %s is not a member", n.Name())
}

// Add adds a removed node as a new member, without data, and waits until it
// serves.
func (c *Cluster) Add(ctx context.Context, n *Node) error {
	client, err := c.Client(c.others(n)...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := n.Wipe(); err != nil {
		return err
	}
	if _, err := client.MemberAdd(ctx, []string{n.peerURL}); err != nil {
		return err
	}
	i := slices.Index(n.args, "--initial-cluster-state=new")
	if i >= 0 {
		n.args[i] = "--initial-cluster-state=existing"
	}
	return errors.Join(n.Launch(), n.AwaitReady(ctx))
}

func (c *Cluster) others(n *Node) (others []*Node) {
	for _, other := range c.nodes {
		if other != n {
			others = append(others, other)
		}
	}
	return others
}
