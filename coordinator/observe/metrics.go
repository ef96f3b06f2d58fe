package observe

import "strings"

// Type is the type of a metric.
type Type string

// The types of metrics.
const (
	Counter   Type = "counter"   // adds
	Gauge     Type = "gauge"     // adds and subtracts
	Histogram Type = "histogram" // counts in buckets
)

// ID is the number of a metric.
type ID int

// The metrics.
const (
	Grants ID = iota
	NotGranted
	Reentries
	Wait
	HandOver
	Hold
	Waiters
	Holders
	Releases
	ReleaseFailures
	Lost
	HeldLong
	HeldTooLong
	LongHolders
	Conversions
	Sessions
	SessionsOpened
	SessionOpen
	SessionsSuspended
	SessionsResumed
	SessionsEnded
	Renewal
	RenewalMargin
	Retries
	CleanUps
	CleanUpsPending
	CleanUpFailures
)

// Metric is the description of one metric.
type Metric struct {
	Name    string // as Prometheus shows it
	Type    Type
	Help    string
	Labels  []string
	Buckets []float64 // upper bounds, of a histogram
}

// Unit is "s" for what is in seconds, and else empty.
func (m Metric) Unit() string {
	if strings.HasSuffix(m.Name, "_seconds") {
		return "s"
	}
	return ""
}

var (
	byLine = []string{"kind", "class"}
	byOp   = []string{"kind", "class", "op"}

	// long is for waits and holds: from the millisecond of a handoff to the
	// hour of a nightly job. They are closer around ten seconds, the default
	// TTL, where they show whether a wait ended with a release or with a crash.
	long = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5,
		7.5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600}
	// short is for one or a few requests: from less than a millisecond to a
	// minute, the longest lock-delay.
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// share is for what is left of a session's life: a renewal is sent at about
	// 0.7, after one failure at 0.4, after two at 0.15.
	share = []float64{.05, .1, .15, .2, .3, .4, .5, .6, .7, .8, .9}
)

var metrics = [...]Metric{
	Grants: {Name: "baton_grants_total", Type: Counter,
		Labels: []string{"kind", "class", "op", "contended"},
		Help:   "Grants; contended are those that were not there at once. Re-entries are not among them."},
	NotGranted: {Name: "baton_not_granted_total", Type: Counter,
		Labels: []string{"kind", "class", "op", "reason"},
		Help:   "Calls that ended without a grant."},
	Reentries: {Name: "baton_reentries_total", Type: Counter, Labels: byLine,
		Help: "Calls that entered a hold of their own context again."},
	Wait: {Name: "baton_wait_seconds", Type: Histogram, Labels: byOp, Buckets: long,
		Help: "Time from the call to its grant."},
	HandOver: {Name: "baton_handover_seconds", Type: Histogram, Labels: byLine, Buckets: short,
		Help: "Time from hearing that somebody ahead has left to the grant, of contended grants."},
	Hold: {Name: "baton_hold_seconds", Type: Histogram, Labels: byLine, Buckets: long,
		Help: "Time from the grant to its release or loss."},
	Waiters: {Name: "baton_waiters", Type: Gauge, Labels: byLine,
		Help: "Contenders of this process that stand in a queue and are not granted."},
	Holders: {Name: "baton_holders", Type: Gauge, Labels: byLine,
		Help: "Grants of this process that are neither released nor lost."},
	Releases: {Name: "baton_releases_total", Type: Counter, Labels: byLine,
		Help: "Grants that were released, whether or not the service has answered."},
	ReleaseFailures: {Name: "baton_release_failures_total", Type: Counter, Labels: byLine,
		Help: "Releases that returned an error; they go on in the background."},
	Lost: {Name: "baton_lost_total", Type: Counter, Labels: []string{"kind", "class", "cause"},
		Help: "Holds that ended without a release."},
	HeldLong: {Name: "baton_held_long_total", Type: Counter, Labels: byLine,
		Help: "Grants that lasted longer than WithHoldWarning or WithMaxHold allows."},
	HeldTooLong: {Name: "baton_held_too_long_total", Type: Counter, Labels: byLine,
		Help: "Grants whose context WithMaxHold has ended."},
	LongHolders: {Name: "baton_long_holders", Type: Gauge, Labels: byLine,
		Help: "Grants that last longer than WithHoldWarning or WithMaxHold allows, at present."},
	Conversions: {Name: "baton_conversions_total", Type: Counter,
		Labels: []string{"kind", "class", "result"},
		Help:   "Entries that were converted to another mode, and those that the service refused to."},
	Sessions: {Name: "baton_sessions", Type: Gauge, Labels: []string{"state"},
		Help: "Sessions that are open, by what is known of them."},
	SessionsOpened: {Name: "baton_sessions_opened_total", Type: Counter,
		Help: "Sessions that were opened."},
	SessionOpen: {Name: "baton_session_open_seconds", Type: Histogram, Buckets: short,
		Help: "Time that it took to open a session, with all attempts."},
	SessionsSuspended: {Name: "baton_sessions_suspended_total", Type: Counter,
		Help: "Times that a session was left without an answer to a renewal."},
	SessionsResumed: {Name: "baton_sessions_resumed_total", Type: Counter,
		Help: "Times that a suspended session was renewed after all."},
	SessionsEnded: {Name: "baton_sessions_ended_total", Type: Counter, Labels: []string{"cause"},
		Help: "Sessions that ended."},
	Renewal: {Name: "baton_renewal_seconds", Type: Histogram, Buckets: short,
		Help: "Time from sending a renewal to its answer."},
	RenewalMargin: {Name: "baton_renewal_margin_ratio", Type: Histogram, Buckets: share,
		Help: "What was left of a session when a renewal was answered," +
			" as a share of what a renewal gives it. Below zero it is lost."},
	Retries: {Name: "baton_retries_total", Type: Counter, Labels: []string{"op"},
		Help: "Requests that had no answer and were sent again."},
	CleanUps: {Name: "baton_cleanups_total", Type: Counter, Labels: []string{"op"},
		Help: "Clean-ups in the background that have ended."},
	CleanUpsPending: {Name: "baton_cleanups_pending", Type: Gauge, Labels: []string{"op"},
		Help: "Clean-ups in the background that go on."},
	CleanUpFailures: {Name: "baton_cleanup_failures_total", Type: Counter, Labels: []string{"op"},
		Help: "Attempts to clean up that failed; they are repeated while the session lives."},
}

// Metrics returns all metrics, each at the index of its ID.
func Metrics() []Metric { return append([]Metric(nil), metrics[:]...) }
