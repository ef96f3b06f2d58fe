package zookeeper

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestNewNamesAreGuessed counts the requests for a name by what the client
// knows: it takes an unknown name to be like the last unknown one.
func TestNewNamesAreGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		lock := func(what, name string, wantMultis, wantCreates int) {
			t.Helper()
			multis, creates, deletes := f.count(opMulti), f.count(opCreateContainer), f.count(opDelete)
			queue := driver.Queue("m/" + name)
			j, err := s.Join(t.Context(), queue, driver.Contender{ID: testID, Mode: "x"})
			ok(t, err)
			ok(t, s.Leave(t.Context(), queue, j.Place))
			multis, creates, deletes = f.count(opMulti)-multis, f.count(opCreateContainer)-creates, f.count(opDelete)-deletes
			if multis != wantMultis || creates != wantCreates || deletes != 1 || !j.First {
				t.Errorf("%s: %d multis, %d creates, %d deletes, first: %v", what, multis, creates, deletes, j.First)
			}
		}
		others := func(name string) string {
			tr.put("/app/~/m/"+name, "")
			return name
		}
		refuse := func(code zk.ErrCode) {
			tr.on(func(op int32, _ string) treeFate {
				if op == opCreateContainer {
					return treeFate{code: code}
				}
				return treeFate{}
			})
		}
		lock("another client's name", others("a"), 1, 0)
		lock("the first new name", "b", 2, 1)
		lock("the next one", "c", 1, 1)
		lock("known", "b", 1, 0)
		tr.remove("/app/~/m/b")
		lock("known, but removed", "b", 2, 1)
		lock("another client's, guessed wrong", others("d"), 1, 1)
		lock("another client's again", others("e"), 1, 0)
		tr.remove("/app/~/m/b")
		lock("a known one that was removed", "b", 2, 1)
		lock("which is no sign of new ones", others("f"), 1, 0)
		lock("a new one", "g", 2, 1)
		refuse(noAuth)
		lock("another client's, without the right to create", others("h"), 1, 1)
		lock("another client's again", others("i"), 1, 0)
		tr.on(nil)
		lock("a new one", "j", 2, 1)
		removed := false
		tr.on(func(op int32, _ string) treeFate {
			if op == opMulti && !removed {
				removed = true
				delete(tr.nodes, "/app/~/m/k")
			}
			return treeFate{}
		})
		lock("removed before it was used", "k", 2, 2)
	})
}

// TestContendersForANewNameShareAQueue: both create it and both join.
func TestContendersForANewNameShareAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		firsts, got := map[string]int{}, map[string]int{}
		for round := range 20 { // from the second one on, the queue is created first
			name := fmt.Sprint("n", round)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					j, err := s.Join(t.Context(), driver.Queue("m/"+name),
						driver.Contender{ID: fmt.Sprintf("%032x", 2*round+i+1), Mode: "x"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					got[name]++
					if j.First {
						firsts[name]++
					}
				})
			}
			wg.Wait()
			if n := len(tr.list("/app/~/m/" + name)); n != 2 || got[name] != 2 || firsts[name] != 1 {
				t.Errorf("%s: %d entries, %d joined, %d as the first", name, n, got[name], firsts[name])
			}
		}
	})
}
