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
	all.replace(old, old.next())
	all.replace(old, old.next()) // found unusable by another watch
	now := all.current()
	if now.gen != 1 || len(now.md) != 2 || !errors.Is(ended(old), errLeft) || !errors.Is(ended(now), errEnded) {
		t.Errorf("stream %+v after two watches left one", now)
	}
}
