package bench

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
	curatorjava "github.com/baton-go/baton/integration/internal/curator"
)

// contendersJava plays loads with Curator's recipes.
//
//go:embed curator/Contenders.java
var contendersJava []byte

// CuratorInstalled returns nil if Curator can be measured here, else an error
// that names what is missing and how to install it.
func CuratorInstalled() error { return curatorjava.Installed() }

// curators is the process that plays for Curator: one for all cases, so that
// its code is compiled. It is started on first use.
type curators struct {
	mu      sync.Mutex
	process *child.Process
	in      io.WriteCloser
	out     *bufio.Reader
	dir     string
	sets    int
}

func (c *curators) start() error {
	if c.process != nil {
		return nil
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "baton-curator-"); err != nil {
		return err
	}
	cmd, err := curatorjava.Command(c.dir, "Contenders.java", contendersJava)
	if err != nil {
		return err
	}
	return c.launch(cmd)
}

// launch starts the process with pipes to and from it.
func (c *curators) launch(cmd *exec.Cmd) error {
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	input, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	out, output, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, log
	if c.process, err = child.Start(cmd); err != nil {
		return err
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 1<<20)
	return nil
}

func (c *curators) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.Kill()
		_ = c.in.Close()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// tell writes a line.
func (c *curators) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	return err
}

// hear reads a line.
func (c *curators) hear() (word, rest string, err error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("bench: Curator's process ended: %w; its log ends with:\n%s", err, child.Tail(filepath.Join(c.dir, "log"), 4<<10))
	}
	word, rest, _ = strings.Cut(strings.TrimSpace(line), " ")
	if word == "error" {
		return "", "", errors.New("bench: Curator: " + rest)
	}
	return word, rest, nil
}

// curator makes a subject of one of Curator's recipes.
func curator(name, recipe string) subject {
	return subject{"Curator " + name, Peer, true, func(_ context.Context, a access, l load) (player, error) {
		c := a.curators
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.start(); err != nil {
			return nil, err
		}
		c.sets++
		p := &curatorPlayer{curators: c, id: c.sets, recipe: recipe, load: l}
		if err := c.tell("open %d %s %d %d", p.id, strings.Join(a.addrs, ","), l.connections(), defaultTTL.Milliseconds()); err != nil {
			return nil, err
		}
		_, _, err := c.hear()
		return p, err
	}}
}

type curatorPlayer struct {
	*curators
	load
	id     int
	recipe string
}

func (p *curatorPlayer) process() int { return p.curators.process.PID() }

func (p *curatorPlayer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tell("close %d", p.id) == nil {
		_, _, _ = p.hear()
	}
}

// play is not interrupted by ctx: a failure ends the process, which ends play.
func (p *curatorPlayer) play(ctx context.Context, pl *play) (times, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer context.AfterFunc(ctx, p.curators.process.Kill)()
	err := p.tell("play %d %s %s %s %d %d %d %d",
		p.id, p.form, p.recipe, pl.name, p.contenders, p.permits, pl.warm, pl.turns)
	for err == nil {
		var word, rest string
		if word, rest, err = p.hear(); err != nil {
			break
		}
		switch word {
		case "settle":
			err = pl.settled(ctx, p.contenders-1)
		case "begin":
			pl.rec.begin()
		case "end":
			pl.rec.end()
		case "done":
			return parseTimes(rest)
		}
		if err == nil {
			err = p.tell("go")
		}
	}
	return times{}, err
}

func parseTimes(text string) (times, error) {
	fields := strings.Fields(text)
	var values []int64
	for _, f := range fields {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return times{}, err
		}
		values = append(values, v)
	}
	if len(values) < 2 {
		return times{}, fmt.Errorf("bench: Curator's times: %q", text)
	}
	t := times{elapsed: time.Duration(values[0]), turns: int(values[1])}
	for _, v := range values[2:] {
		t.each = append(t.each, time.Duration(v))
	}
	return t, nil
}
