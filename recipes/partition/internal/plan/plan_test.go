package plan_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/recipes/partition/internal/plan"
)

func member(token int64, shards int) plan.Member {
	return plan.Member{Token: token, Weight: 1, Max: shards}
}

// check fails unless no shard has two members, and returns the owners.
func check(t *testing.T, p plan.Plan) (owner map[int]int64) {
	t.Helper()
	owner = make(map[int]int64)
	seats := make(map[int]bool)
	for _, m := range p.Members {
		if seats[m.Seat] || m.Seat < 0 || m.Seat >= 2*len(p.Members)+16 {
			t.Fatalf("seat %d of %+v", m.Seat, p)
		}
		seats[m.Seat] = true
		if !slices.IsSorted(m.Shards) || len(m.Shards) > m.Max || m.Leaving && len(m.Shards) > 0 {
			t.Fatalf("shards of %+v", m)
		}
		for _, s := range m.Shards {
			if _, twice := owner[s]; twice || s < 0 || s >= p.Shards {
				t.Fatalf("shard %d of %+v", s, p)
			}
			owner[s] = m.Token
		}
	}
	return owner
}

// TestPlansAreEvenAndMoveLittle: members of equal weight come, leave and die,
// one at a time. They differ by one shard at most, and no more shards move than
// those of the member that left, or those that the newcomer takes.
func TestPlansAreEvenAndMoveLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		shards := 1 + r.IntN(70)
		var alive []plan.Member
		var p plan.Plan
		before, token := map[int]int64{}, int64(0)
		for range 30 {
			var may int // the number of shards that may move
			if len(alive) == 0 || len(alive) < 12 && r.IntN(2) == 0 {
				token++
				alive = append(alive, member(token, shards))
				may = (shards + len(alive) - 1) / len(alive)
			} else {
				i := r.IntN(len(alive))
				may = len(p.Find(alive[i].Token).Shards)
				alive = slices.Delete(alive, i, i+1)
			}
			next := p.Next(shards, alive)
			owner := check(t, next)
			if len(alive) > 0 && len(owner) != shards {
				t.Fatalf("%d of %d shards have an owner: %+v", len(owner), shards, next)
			}
			moved, least, most := 0, shards, 0
			for s, o := range owner {
				if before[s] != o {
					moved++
				}
			}
			for _, m := range next.Members {
				least, most = min(least, len(m.Shards)), max(most, len(m.Shards))
			}
			if most > least+1 && len(alive) > 0 || moved > may {
				t.Fatalf("%d to %d shards, %d moved, %d allowed:\n%+v\n%+v", least, most, moved, may, p, next)
			}
			if again := next.Next(shards, alive); !again.Same(next) {
				t.Fatalf("not stable:\n%+v\n%+v", next, again)
			}
			p, before = next, owner
		}
	}
}

// TestPlansRespectWeightsAndLimits: a member of weight 3 has three times the
// shards, and no member more than its limit; what no member takes stays free.
func TestPlansRespectWeightsAndLimits(t *testing.T) {
	for _, c := range []struct {
		shards       int
		weights, max []int
		leaving      int // its number, or -1
		want         []int
	}{
		{64, []int{1, 3}, []int{64, 64}, -1, []int{16, 48}},
		{6, []int{1, 2, 3}, []int{6, 6, 6}, -1, []int{1, 2, 3}},
		{10, []int{1, 1, 1}, []int{10, 2, 10}, -1, []int{4, 2, 4}},
		{10, []int{1, 1}, []int{3, 4}, -1, []int{3, 4}},
		{10, []int{1, 1, 1}, []int{10, 0, 10}, -1, []int{5, 0, 5}},
		{10, []int{1, 1, 1}, []int{10, 10, 10}, 2, []int{5, 5, 0}},
		{2, []int{1, 1, 1}, []int{2, 2, 2}, -1, []int{1, 1, 0}},
		{3, []int{1}, []int{3}, 0, []int{0}},
	} {
		var alive []plan.Member
		for i := range c.weights {
			alive = append(alive, plan.Member{Token: int64(i + 1), Weight: c.weights[i], Max: c.max[i],
				Leaving: i == c.leaving})
		}
		p := plan.Plan{}.Next(c.shards, alive)
		check(t, p)
		var got []int
		for _, m := range p.Members {
			got = append(got, len(m.Shards))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestLeavingLasts: a member that leaves gets nothing from the plans of others.
func TestLeavingLasts(t *testing.T) {
	one, two := member(1, 4), member(2, 4)
	leaves := one
	leaves.Leaving = true
	p := plan.Plan{}.Next(4, []plan.Member{one, two}).Next(4, []plan.Member{leaves, two})
	p = p.Next(4, []plan.Member{one, two, member(3, 4)})
	check(t, p)
	if m := p.Find(1); !m.Leaving || len(m.Shards) != 0 {
		t.Errorf("%+v", m)
	}
}

// TestChangedAreTheAffectedMembers: a death changes those that take its shards
// and its successor, a join those that give up shards and the first.
func TestChangedAreTheAffectedMembers(t *testing.T) {
	var alive []plan.Member
	for i := range int64(8) {
		alive = append(alive, member(i+1, 4))
	}
	tokens := func(members []plan.Member) (all []int64) {
		for _, m := range members {
			all = append(all, m.Token)
		}
		return all
	}
	p := plan.Plan{}.Next(4, alive[:7])
	if got := tokens(p.Next(4, alive).Changed(p)); !slices.Equal(got, []int64{1}) {
		t.Errorf("join without shards: %v", got) // the first now watches the eighth
	}
	p = plan.Plan{}.Next(4, alive)
	dead := slices.Delete(slices.Clone(alive), 1, 2) // the second, with one shard
	if got := tokens(p.Next(4, dead).Changed(p)); !slices.Equal(got, []int64{3, 5}) {
		t.Errorf("death of the second: %v", got)
	}
	dead = slices.Delete(slices.Clone(alive), 5, 6) // the sixth has none
	if got := tokens(p.Next(4, dead).Changed(p)); !slices.Equal(got, []int64{7}) {
		t.Errorf("death of the sixth: %v", got)
	}
	if alone := (plan.Plan{}).Next(4, alive[:1]); alone.Predecessor(1) != 0 || alone.Predecessor(9) != 0 {
		t.Errorf("predecessor in %+v", alone)
	}
}

// TestPlanFitsARecord of 64 KiB with 800 members and tokens of 48 bits.
func TestPlanFitsARecord(t *testing.T) {
	var alive []plan.Member
	for i := range int64(800) {
		alive = append(alive, plan.Member{Token: 1<<48 + i, Weight: 1000, Max: 1024})
	}
	p := plan.Plan{}.Next(1024, alive)
	p.Mark = plan.Mark{ID: strings.Repeat("A", 26), Number: 1 << 40}
	text, err := json.Marshal(p)
	if err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if again, err := plan.Parse(text); err != nil || !again.Same(p) || again.Mark != p.Mark {
		t.Errorf("parsed %+v, %v", again, err)
	}
}

// TestParseRefusesAPlanThatBreaksItsRules, and names the value.
func TestParseRefusesAPlanThatBreaksItsRules(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                     "unexpected end",
		`{"id":"","number":1}`:  `ID ""`,
		`{"id":"a","number":0}`: "number 0",
		`{"id":"a","number":1,"shards":2,"members":[{"token":7,"holds":[2]}]}`:                         "shard 2 of member 7",
		`{"id":"a","number":1,"shards":2,"members":[{"token":7,"holds":[1]},{"token":8,"holds":[1]}]}`: "shard 1 of member 8",
	} {
		if _, err := plan.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p, err := plan.Parse(nil); err != nil || p.ID != "" {
		t.Errorf("no text: %+v, %v", p, err)
	}
}
