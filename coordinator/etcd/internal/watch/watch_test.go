package watch

import (
	"errors"
	"testing"
)

func TestWatchesShareAStreamUntilOneOfThemLeavesIt(t *testing.T) {
	var all Streams
	old := all.current()
	if len(old.md) != 1 || all.current() != old {
		t.Errorf("metadata %v: want the shared stream", old.md)
	}
	all.replace(old, all.next())
	all.replace(old, all.next()) // found unusable by another watch
	now, other := all.current(), all.next()
	if other.gen == now.gen || other.gen == 2 { // 2 was tried, and may still be open
		t.Errorf("stream %d is used again", other.gen)
	}
	if now.gen != 1 || len(now.md) != 2 || !errors.Is(ended(old), errLeft) || !errors.Is(ended(now), errEnded) {
		t.Errorf("stream %+v after two watches left one", now)
	}
}
