package story_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/examples/fencing/story"
	"github.com/baton-go/baton/mutex"
)

// page is a resource with or without a gate.
type page struct {
	gate  *fence.Gate
	check bool // it asks the gate
	late  bool // and writes all the same
	text  string
}

func (p *page) Name() string                         { return "page" }
func (p *page) Read(context.Context) (string, error) { return p.text, nil }

func (p *page) Write(ctx context.Context, s fence.Sequencer, text string) error {
	var err error
	if p.check {
		err = p.gate.Check(ctx, s)
	}
	if err == nil || p.late {
		p.text = text
	}
	return err
}

func TestStoryFailsIfAResourceTakesTheLateWrite(t *testing.T) {
	for want, p := range map[string]*page{
		"":                           {check: true},
		"page and the late write":    {},
		`page has "written late" in`: {check: true, late: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService()
			links := [2]*memory.Driver{svc.Driver(), svc.Driver()}
			var locks [2]*mutex.Mutex
			for i, link := range links {
				c, err := coordinator.New(link, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(t.Context())
				if locks[i], err = mutex.New(c, "page"); err != nil {
					t.Fatal(err)
				}
			}
			p.gate = fence.NewGate(fence.Scope{})
			err := story.Story{First: locks[0], Second: locks[1], Stop: links[0].Cut, Resources: []story.Resource{p}, Out: io.Discard}.Tell(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
			links[0].Heal()
		})
	}
}
