package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/baton-go/baton/coordinator"
)

// glance bounds one look of a watch: a picture must not be older without a word.
const glance = 3 * time.Second

// watch shows the queues at a name again and again, until ctx ends.
//
// It asks anew each time. Waiting for changes would take a watch for each
// contender, and be told of no newcomer.
func (i inspection) watch(ctx context.Context, every time.Duration) error {
	var opts []coordinator.Option
	if !i.verbose { // nothing is held, so what becomes of the session is no news, and would spoil the picture
		opts = append(opts, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	}
	c, err := i.open(opts...)
	if err != nil {
		return err
	}
	defer finish(c)
	show := i.append()
	if fd, ok := terminal(i.Out); ok && !i.json {
		show = i.refresh(func() (int, int, error) { return term.GetSize(fd) })
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeoutCause(ctx, glance, fmt.Errorf("no answer within %v", glance))
		queues, err := readLines(look, c, i.kind, i.name)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, coordinator.ErrUnavailable) && !errors.Is(err, coordinator.ErrSessionLost):
			return err
		}
		if err := show(queues, err); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// terminal returns the descriptor of a terminal; ok is false for what is none.
func terminal(w io.Writer) (fd int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// append shows what has changed, below what was shown before. That the service
// is away it says once.
func (i inspection) append() func(queues []queueView, away error) error {
	var last []queueView
	shown, said := false, false
	return func(queues []queueView, away error) error {
		if away != nil {
			if !said {
				fmt.Fprintf(i.Err, "baton: trying again: %s\n", describe(away))
			}
			said = true
			return nil
		}
		said = false
		if shown && reflect.DeepEqual(queues, last) {
			return nil
		}
		if !i.json && shown {
			fmt.Fprintln(i.Out)
		}
		last, shown = queues, true
		if len(queues) == 0 && !i.json {
			_, err := fmt.Fprintln(i.Out, i.nobody())
			return err
		}
		return i.write(i.Out, queues, time.Now())
	}
}

// refresh shows the queues, as they were when they could be read last, in the
// place of what a terminal of a size has shown before.
func (i inspection) refresh(size func() (width, height int, err error)) func(queues []queueView, away error) error {
	var last []queueView
	return func(queues []queueView, away error) error {
		now := time.Now()
		var text bytes.Buffer
		fmt.Fprintf(&text, "%s  %s\n", cell(i.name), now.Local().Format(time.TimeOnly))
		if away != nil {
			fmt.Fprintf(&text, "trying again: %s\n", describe(away))
		} else {
			last = queues
		}
		fmt.Fprintln(&text)
		if len(last) == 0 && away == nil {
			fmt.Fprintln(&text, i.nobody())
		}
		if err := i.write(&text, last, now); err != nil {
			return err
		}
		width, height, err := size()
		if err != nil {
			return err
		}
		_, err = io.WriteString(i.Out, picture(text.String(), width, height))
		return err
	}
}

// picture is what draws a text in the place of what a terminal shows: from its
// upper left corner, each line over the one of before, and nothing behind the
// last. Nothing may wrap or scroll, or the next picture would not come to lie
// over it. The last line is left to the shell's prompt. A terminal that does
// not know its size, a serial line for one, has a size of zero: nothing is cut
// then.
func picture(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := max(2, height-1); height > 0 && len(lines) > room {
		lines = append(lines[:room-1], fmt.Sprintf("… and %d more", len(lines)-room+1))
	}
	for n, line := range lines {
		if runes := []rune(line); width > 0 && len(runes) > width {
			lines[n] = string(runes[:max(0, width-1)]) + "…"
		}
	}
	const home, endOfLine, below = "\x1b[H", "\x1b[K\n", "\x1b[J"
	return home + strings.Join(lines, endOfLine) + endOfLine + below
}
