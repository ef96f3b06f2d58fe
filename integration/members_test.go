package integration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition"
)

func init() { proc.Register("group", groupWorker) }

// groupWorker joins a group, and stays until it is killed: url, name, value.
func groupWorker(ctx context.Context, io *proc.IO, args []string) error {
	client, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	g, err := group.New(client, args[1])
	if err != nil {
		return err
	}
	m, err := g.Join(ctx, []byte(args[2]))
	if err != nil {
		return err
	}
	if err := io.Send(m.Token()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// TestMembersAreObserved: an observer follows joins of several processes at the
// same time, an update, a leave and a kill.
func TestMembersAreObserved(t *testing.T) {
	const ttl, processes = 10 * time.Second, 5
	together(t, func(t *testing.T, s site) {
		name := fresh(t)("members")
		g, err := group.New(s.client(t, ttl), name)
		if err != nil {
			t.Fatal(err)
		}
		watched, err := group.New(s.client(t, ttl), name)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			for members, err := range watched.Observe(ctx) {
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				values := make([]string, len(members))
				for i, m := range members {
					values[i] = string(m.Payload)
				}
				mu.Lock()
				seen = values
				mu.Unlock()
			}
		})
		sees := func(what string, want ...string) {
			t.Helper()
			await.Until(t, what, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(slices.Sorted(slices.Values(seen)), want)
			})
		}
		m, err := g.Join(t.Context(), []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		sees("the first", "a")
		var others []*proc.Child
		for range processes {
			others = append(others, proc.Start(t, "group", s.url(ttl), name, "z"))
		}
		tokens := make([]coordinator.Token, processes)
		for i, w := range others {
			w.Recv(&tokens[i])
		}
		sees("the processes", "a", "z", "z", "z", "z", "z")
		if err := m.Update(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		sees("the update", "b", "z", "z", "z", "z", "z")
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		sees("the leave", "z", "z", "z", "z", "z")
		for _, w := range others {
			w.Kill()
		}
		for _, token := range tokens {
			if err := watched.AwaitLeave(await.Context(t), token); err != nil {
				t.Fatal(err)
			}
		}
		sees("the kills")
	})
}

// TestPartitionedMemberIsGoneInTime: a member whose network is silently cut is
// notified before the group shows its end, and before another member has its
// shards. When the network is back it is a member again.
func TestPartitionedMemberIsGoneInTime(t *testing.T) {
	const ttl, shards = 10 * time.Second, 8
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		cut, other := s.link(t, ttl), s.silentClient(t, ttl)
		m := &tenancy{T: t, holders: make(map[int]context.Context), by: make(map[int]*coordinator.Client)}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, c := range []*coordinator.Client{cut.Client, other} {
			p, err := partition.New(c, name("shards"), shards)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				_ = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
					return m.work(ctx, c, s.Number())
				})
			})
		}
		defer wg.Wait()
		defer stop()
		members, err := group.New(cut.Client, name("members"))
		if err != nil {
			t.Fatal(err)
		}
		lost, err := members.Join(t.Context(), []byte("cut"))
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "even shards", func() bool { return m.held(cut.Client) == shards/2 && m.held(other) == shards/2 })

		watched, err := group.New(other, name("members"))
		if err != nil {
			t.Fatal(err)
		}
		cut.proxy.Cut()
		began := time.Now()
		for seen, err := range watched.Observe(await.Context(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(seen, func(c recipes.Contender) bool { return c.Token == lost.Token() }) {
				break
			}
		}
		t.Logf("the group showed the end after %v", time.Since(began).Round(time.Millisecond))
		if err := lost.Err(); !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("the member was not notified before: %v", err)
		}
		await.Until(t, "all shards at the other member", func() bool { return m.held(other) == shards })
		cut.proxy.Heal()
		await.Until(t, "even shards", func() bool { return m.held(cut.Client) == shards/2 && m.held(other) == shards/2 })
	})
}

// tenancy checks in one process that no shard has two live holders.
type tenancy struct {
	*testing.T
	mu      sync.Mutex
	holders map[int]context.Context
	by      map[int]*coordinator.Client
}

func (s *tenancy) work(ctx context.Context, c *coordinator.Client, shard int) error {
	s.mu.Lock()
	if last := s.holders[shard]; last != nil && last.Err() == nil {
		s.Errorf("shard %d has two holders", shard)
	}
	s.holders[shard], s.by[shard] = ctx, c
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (s *tenancy) held(c *coordinator.Client) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, ctx := range s.holders {
		if s.by[shard] == c && ctx.Err() == nil {
			n++
		}
	}
	return n
}
