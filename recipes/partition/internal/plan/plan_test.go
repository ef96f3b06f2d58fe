package plan_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
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

// fewest returns how many shards members must give up at least for an even
// plan, whose targets are total/len(held), or one more.
func fewest(held []int, total int) int {
	low, more, best := total/len(held), total%len(held), total
	for up := range 1 << len(held) { // the set of those with one more
		if bits.OnesCount(uint(up)) != more {
			continue
		}
		given := 0
		for i, h := range held {
			given += max(0, h-low-up>>i&1)
		}
		best = min(best, given)
	}
	return best
}

// step returns the plan after p, of members of weight 1: those of the set gone
// die, those of leaving leave, and some join. It checks that the plan is even
// and stable, and that the members that stay give up as few shards as possible.
func step(t *testing.T, p plan.Plan, gone, leaving, joins int) plan.Plan {
	t.Helper()
	var alive []plan.Member
	var held []int
	total, token := 0, int64(0)
	for i, m := range p.Members {
		token = m.Token
		if gone>>i&1 == 1 {
			continue
		}
		if m.Leaving = m.Leaving || leaving>>i&1 == 1; !m.Leaving {
			held, total = append(held, len(m.Shards)), total+len(m.Shards)
		}
		m.Seat, m.Shards = 0, nil // Next takes them from p
		alive = append(alive, m)
	}
	for range joins {
		token++
		alive, held = append(alive, member(token, p.Shards)), append(held, 0)
	}
	next := p.Next(p.Shards, alive)
	if again := next.Next(p.Shards, alive); !again.Same(next) {
		t.Fatalf("not stable:\n%+v\n%+v", next, again)
	}
	owner := check(t, next)
	if len(held) == 0 {
		return next
	}
	least, most, kept := p.Shards, 0, 0
	for _, m := range next.Members {
		if m.Leaving {
			continue
		}
		least, most = min(least, len(m.Shards)), max(most, len(m.Shards))
		if old := p.Find(m.Token); old != nil {
			for _, s := range old.Shards {
				if owner[s] == m.Token {
					kept++
				}
			}
		}
	}
	want := fewest(held, p.Shards)
	if len(owner) != p.Shards || most > least+1 || total-kept != want {
		t.Fatalf("gone %b, leaving %b, %d join: %d of %d shards owned, %d to %d each, %d given up, want %d:\n%+v\n%+v",
			gone, leaving, joins, len(owner), p.Shards, least, most, total-kept, want, p, next)
	}
	if each := (p.Shards + len(held) - 1) / len(held); want > joins*each {
		t.Fatalf("%d join, and %d shards move", joins, want)
	}
	return next
}

// TestPlansMoveTheFewestShards: from each plan that up to four members can
// reach, any of them die or leave while up to two join.
func TestPlansMoveTheFewestShards(t *testing.T) {
	for shards := 1; shards <= 4; shards++ {
		known := make(map[string]bool)
		for todo := []plan.Plan{{Shards: shards}}; len(todo) > 0; {
			p := todo[0]
			todo = todo[1:]
			all := 1 << len(p.Members)
			for set := range all * all * 3 {
				gone, leaving, joins := set%all, set/all%all, set/all/all
				if gone&leaving != 0 {
					continue
				}
				next := step(t, p, gone, leaving, joins)
				for i := range next.Members { // small numbers, so the plans are few
					next.Members[i].Token, next.Members[i].Seat = int64(i+1), i
				}
				if key := fmt.Sprint(next); len(next.Members) <= 4 && !known[key] {
					known[key], todo = true, append(todo, next)
				}
			}
		}
		if shards == 4 && len(known) < 150 {
			t.Errorf("only %d plans of %d shards", len(known), shards)
		}
	}
}

// TestLargePlansMoveTheFewestShards: up to ten members, 70 shards, at random.
func TestLargePlansMoveTheFewestShards(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p := plan.Plan{Shards: 1 + r.IntN(70)}
		for range 30 {
			switch n := len(p.Members); {
			case n == 0 || n < 9 && r.IntN(2) == 0:
				p = step(t, p, 0, 0, 1+r.IntN(2))
			default:
				gone, leaving := 1<<r.IntN(n), 1<<r.IntN(n)
				p = step(t, p, gone, leaving&^gone, r.IntN(2))
			}
		}
	}
}

// TestWeightsAndLimitsMoveNoShardAmongThoseThatStay: three members of weight 1
// to 3, which take at most 1, 3 or all shards. When one leaves, the others keep
// theirs. When one joins, the others get none.
func TestWeightsAndLimitsMoveNoShardAmongThoseThatStay(t *testing.T) {
	contains := func(all, some []int) bool {
		return !slices.ContainsFunc(some, func(s int) bool { return !slices.Contains(all, s) })
	}
	for shards := 1; shards <= 8; shards++ {
		for kinds := range 9 * 9 * 9 * 3 {
			all := make([]plan.Member, 3)
			for i := range all {
				k := kinds / []int{1, 9, 81}[i] % 9
				all[i] = plan.Member{Token: int64(i + 1), Weight: 1 + k%3, Max: []int{1, 3, shards}[k/3]}
			}
			out := kinds / 729
			rest := slices.Delete(slices.Clone(all), out, out+1)
			again := all[out]
			again.Token = 4
			before := plan.Plan{}.Next(shards, all)
			left := before.Next(shards, rest)
			joined := left.Next(shards, append(slices.Clone(rest), again))
			for _, p := range []plan.Plan{before, left, joined} {
				check(t, p)
			}
			for _, m := range left.Members {
				if !contains(m.Shards, before.Find(m.Token).Shards) {
					t.Fatalf("a leave moved shards of others:\n%+v\n%+v", before, left)
				}
				if !contains(m.Shards, joined.Find(m.Token).Shards) {
					t.Fatalf("a join gave shards to others:\n%+v\n%+v", left, joined)
				}
			}
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
		{3, []int{1, 1, 4}, []int{3, 3, 3}, -1, []int{1, 0, 2}},
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

// TestLeavingLasts: a member that leaves gets nothing from the plans of others,
// and neither watches a member nor is watched.
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
	if a, b, c := p.Predecessor(1), p.Predecessor(2), p.Predecessor(3); a != 0 || b != 3 || c != 2 {
		t.Errorf("%d, %d and %d are watched", a, b, c)
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

// TestPlanFitsARecord of 64 KiB with 800 members and tokens of 48 bits, or 700
// that settle.
func TestPlanFitsARecord(t *testing.T) {
	for _, c := range []struct {
		members      int64
		shards, step int
	}{{800, 1024, 0}, {700, 1024, 12}} {
		var alive []plan.Member
		for i := range c.members {
			alive = append(alive, plan.Member{Token: 1<<48 + i, Weight: 1000, Max: c.shards, Settling: c.step})
		}
		p := plan.Plan{}.Next(c.shards, alive)
		p.Number = 1 << 40
		text, err := json.Marshal(p)
		if err != nil || len(text) > 64<<10 {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		if again, err := plan.Parse(text); err != nil || !again.Same(p) || again.Number != p.Number {
			t.Errorf("parsed %+v, %v", again, err)
		}
	}
}

// TestParseRefusesAPlanThatBreaksItsRules, and names the value.
func TestParseRefusesAPlanThatBreaksItsRules(t *testing.T) {
	for text, want := range map[string]string{
		`{`:            "unexpected end",
		`{"number":0}`: "number 0",
		`{"number":1,"shards":2,"members":[{"token":7,"holds":[2]}]}`:                         "shard 2 of member 7",
		`{"number":1,"shards":2,"members":[{"token":7,"holds":[1]},{"token":8,"holds":[1]}]}`: "shard 1 of member 8",
		`{"number":1,"shards":2,"members":[{"token":7,"settling":-2147483648}]}`:              "step -2147483648 of member 7",
	} {
		if _, err := plan.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p, err := plan.Parse(nil); err != nil || p.Number != 0 {
		t.Errorf("no text: %+v, %v", p, err)
	}
}

// TestWishOfAnotherProgramMakesNoPlanThatIsRefused: the entries of planners
// have the wishes, and others may write there.
func TestWishOfAnotherProgramMakesNoPlanThatIsRefused(t *testing.T) {
	alive := []plan.Member{member(7, 4), {Token: 8, Weight: 1, Max: 4, Settling: 1}}
	for _, step := range []int{math.MinInt, -1, 0, 1, math.MaxInt} {
		p := plan.Plan{}.Next(4, alive, plan.Wish{Token: 8, Settling: &step}, plan.Wish{Token: 9, Leaving: true})
		p.Number = 1
		text, err := json.Marshal(p)
		if err == nil {
			_, err = plan.Parse(text)
		}
		if err != nil {
			t.Errorf("step %d: %v", step, err)
		}
		check(t, p)
	}
}

// FuzzParse: no plan crashes the members that follow it, or takes them for
// ever.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"number":1,"shards":2,"members":[{"token":7,"weight":1,"max":2,"settling":1,"holds":[1]}]}`))
	f.Add([]byte(`{"number":1,"shards":4,"members":[{"token":7,"seat":-1,"settling":9223372036854775807},{"token":7,"leaving":true}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := plan.Parse(text)
		if err != nil {
			return
		}
		for _, m := range p.Members {
			_ = m.Grown()
			p.Predecessor(m.Token)
		}
		if p.Shards < 1 || p.Shards > 1024 {
			return
		}
		check(t, p.Next(p.Shards, []plan.Member{member(7, p.Shards), member(8, p.Shards)}))
	})
}

// TestMembersThatSettleTakeFewShards: up to six members, some of which settle,
// join, die, leave and make their steps at random. Each shard has an owner, a
// plan is stable, and while a member has settled, one that settles keeps what
// it has and takes no more than its step allows.
func TestMembersThatSettleTakeFewShards(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		shards := 1 + r.IntN(40)
		p, token := plan.Plan{Shards: shards}, int64(0)
		for range 30 {
			var alive []plan.Member
			var wishes []plan.Wish
			for _, m := range p.Members {
				switch r.IntN(12) {
				case 0:
					continue // died
				case 1:
					wishes = append(wishes, plan.Wish{Token: m.Token, Leaving: true})
				case 2, 3, 4:
					step := m.Grown()
					wishes = append(wishes, plan.Wish{Token: m.Token, Settling: &step})
				}
				alive = append(alive, plan.Member{Token: m.Token, Weight: 1, Max: shards, Settling: 1})
			}
			if len(alive) < 6 {
				token++
				alive = append(alive, plan.Member{Token: token, Weight: 1, Max: shards, Settling: r.IntN(2)})
			}
			next := p.Next(shards, alive, wishes...)
			if again := next.Next(shards, alive, wishes...); !again.Same(next) {
				t.Fatalf("not stable:\n%+v\n%+v", next, again)
			}
			settled, takers := 0, 0
			for _, m := range next.Members {
				if !m.Leaving {
					takers++
				}
				if !m.Leaving && m.Settling == 0 {
					settled++
				}
			}
			if owner := check(t, next); takers > 0 && len(owner) != shards {
				t.Fatalf("%d of %d shards have owners: %+v", len(owner), shards, next)
			}
			for _, m := range next.Members {
				had := 0
				if old := p.Find(m.Token); old != nil {
					had = len(old.Shards)
				}
				allowed := max(had, []int{0, 0, 1, 2, 4, 8, 16, 32, 64, 128}[m.Settling])
				if settled > 0 && m.Settling > 0 && len(m.Shards) > allowed {
					t.Fatalf("a member in step %d with %d shards takes %d:\n%+v\n%+v",
						m.Settling, had, len(m.Shards), p, next)
				}
			}
			for _, w := range wishes {
				if !next.Has(w) {
					t.Fatalf("wish %+v is not in %+v", w, next)
				}
			}
			p = next
		}
	}
}

// TestCrashesTakeDifferentShards: a member that has taken one shard dies, comes
// back and takes another. Crashes are counted until a member has settled, and
// not before the fleet has.
func TestCrashesTakeDifferentShards(t *testing.T) {
	const shards = 12
	settling := func(token int64) plan.Member {
		return plan.Member{Token: token, Weight: 1, Max: shards, Settling: 1}
	}
	grow := func(p plan.Plan, alive []plan.Member, token int64, step int) plan.Plan {
		return p.Next(shards, alive, plan.Wish{Token: token, Settling: &step})
	}
	old := []plan.Member{member(1, shards), member(2, shards)}
	p := plan.Plan{}.Next(shards, old)
	taken := make(map[int]bool)
	for token := int64(10); token < 12; token++ {
		alive := append(slices.Clone(old), settling(token))
		p = grow(p.Next(shards, alive), alive, token, 2)
		m := p.Find(token)
		if len(m.Shards) != 1 || taken[m.Shards[0]] {
			t.Errorf("member %d takes %v, after %v", token, m.Shards, taken)
		}
		taken[m.Shards[0]] = true
		p = p.Next(shards, old)
		if want := min(int(token)-9, 2); p.Crashes != want || p.Patience() != []int{1, 4, 16}[want] {
			t.Errorf("%d crashes, want %d; patience %d", p.Crashes, want, p.Patience())
		}
		p = p.Next(shards, append(slices.Clone(old), settling(20)))
		if p = p.Next(shards, old); p.Crashes != min(int(token)-9, 2) {
			t.Errorf("%d crashes after one without shards", p.Crashes)
		}
	}
	alive := append(slices.Clone(old), settling(30))
	if p = grow(p.Next(shards, alive), alive, 30, 0); p.Crashes != 0 {
		t.Errorf("%d crashes after one has settled", p.Crashes)
	}
	young := []plan.Member{settling(1), settling(2)}
	p = plan.Plan{}.Next(shards, young)
	if p = p.Next(shards, young[:1]); p.Crashes != 0 {
		t.Errorf("%d crashes at the start of the fleet", p.Crashes)
	}
}
