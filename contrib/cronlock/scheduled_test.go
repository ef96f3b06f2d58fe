package cronlock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestScheduledIsTheLastTimeThatHasPassed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, spec := range []string{
		"* * * * *", "*/7 3-5 * * *", "0 3 * * *", "30 2 29 2 *", "0 0 1 1 *", "CRON_TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=America/New_York 0 * * * 0",
	} {
		schedule, err := cron.ParseStandard(spec)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 50 {
			at := schedule.Next(from.Add(time.Duration(random.Int64N(int64(3 * 365 * 24 * time.Hour)))))
			until := schedule.Next(at)
			for _, now := range []time.Time{at, at.Add(time.Millisecond), at.Add(until.Sub(at) / 2), until.Add(-time.Nanosecond)} {
				if got := scheduled(schedule, now); !got.Equal(at) {
					t.Fatalf("%s: scheduled(%v) = %v, want %v", spec, now, got, at)
				}
			}
		}
	}
	now := time.Date(2026, 11, 28, 13, 10, 7, 5, time.UTC)
	if got := scheduled(cron.Every(time.Hour), now); !got.Equal(time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)) {
		t.Errorf("each hour: %v", got)
	}
	if got := scheduled(never{}, now); !got.Equal(now.Truncate(time.Second)) {
		t.Errorf("a schedule without times: %v", got)
	}
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }
