package coordinatortest

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func headFlaws() []flaw {
	const states, first = "Version,Head/each state has its own", "H2,H3/Head: a wait for the first state leaves at most one watch"
	r := reader[driver.Head]{
		read:    func(s session) readFunc[driver.Head] { return s.Head },
		patch:   func(s *patched, broken readFunc[driver.Head]) { s.head = broken },
		version: func(h driver.Head) driver.Version { return h.Version },
		changes: []string{"H1/head follows a queue with many heads", first},
		any:     []string{states},
		passed:  []string{states},
		fresh:   []string{showsLatest},
		quiet:   []string{"H2/Head: other contenders end no wait", "W2/changes of others end no wait"},
		many:    []string{"H1/Head: it shows the last of many changes, in order"},
		nothing: []string{first},
	}
	return append(r.flaws("head"),
		flaw{
			name: "head: an entry that leaves during the read is an empty queue", finds: []string{"H1/head follows a queue with many heads"},
			session: r.broken(func(
				ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[driver.Head],
			) (driver.Head, error) {
				head, err := intact(ctx, queue, known)
				sleep(ctx, time.Millisecond) // the round trip of the second request
				if _, there := w.entry(queue, head.Key); !there {
					return driver.Head{}, err
				}
				return head, err
			}),
		},
		flaw{
			name: "head: versions are tokens", finds: []string{states},
			session: r.broken(func(
				ctx context.Context, _ *world, queue driver.Queue, known driver.Version, intact readFunc[driver.Head],
			) (driver.Head, error) {
				head, err := intact(ctx, queue, known)
				head.Version = driver.Version(head.Token)
				return head, err
			}),
		},
		flaw{
			name: "head: watches the whole queue and filters", finds: []string{"H2/Head: other contenders end no wait"},
			session: func(w *world, s *patched) {
				s.head = func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
					err := whole(ctx, w, s.session.Watch, queue, func() bool { _, now := r.now(w, queue); return now != known })
					got, _ := r.now(w, queue)
					return got, err
				}
			},
		})
}
