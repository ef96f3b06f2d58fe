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
	Deadlocks
	LocalGrants
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
	KeptTurns
	PassOn
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
	EventsDropped
)

// Metric is the description of one metric.
type Metric struct {
	Name    string // as Prometheus shows it
	Type    Type
	Help    string
	Labels  []string
	Buckets []float64 // upper bounds, of a histogram
}

// Unit returns "s" for a metric in seconds, else "".
func (m Metric) Unit() string {
	if strings.HasSuffix(m.Name, "_seconds") {
		return "s"
	}
	return ""
}

var (
	byClass = []string{"kind", "class"}
	byOp    = []string{"kind", "class", "op"}

	// long is for waits and holds: from the millisecond of a handoff to the
	// hour of a nightly job. The buckets are narrower around ten seconds, the
	// default TTL, to show whether a release or a crash ended a wait.
	long = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5,
		7.5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600}
	// short is for a few requests: from less than a millisecond to a minute,
	// the longest lock-delay.
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// share is for the time left of a session: a renewal is sent at about 0.9,
	// and each failure in a row costs 0.1.
	share = []float64{.05, .1, .15, .2, .3, .4, .5, .6, .7, .8, .9}
)

var metrics = [...]Metric{
	Grants: {Name: "baton_grants_total", Type: Counter,
		Labels: []string{"kind", "class", "op", "contended"},
		Help:   "Grants. Contended grants were queued first. Re-entries are not counted."},
	NotGranted: {Name: "baton_not_granted_total", Type: Counter,
		Labels: []string{"kind", "class", "op", "reason"},
		Help:   "Calls that ended without a grant."},
	Deadlocks: {Name: "baton_deadlocks_total", Type: Counter, Labels: byClass,
		Help: "Waits of this process that were part of a deadlock."},
	LocalGrants: {Name: "baton_local_grants_total", Type: Counter, Labels: byClass,
		Help: "Grants that needed no request, since the turn was kept or shared: see WithRetain, WithSharedReads."},
	Reentries: {Name: "baton_reentries_total", Type: Counter, Labels: byClass,
		Help: "Calls that re-entered the hold of their context."},
	Wait: {Name: "baton_wait_seconds", Type: Histogram, Labels: byOp, Buckets: long,
		Help: "Time from the call to its grant."},
	HandOver: {Name: "baton_handover_seconds", Type: Histogram, Labels: byClass, Buckets: short,
		Help: "Time of contended grants from the last wake-up to the grant."},
	Hold: {Name: "baton_hold_seconds", Type: Histogram, Labels: byClass, Buckets: long,
		Help: "Time from the grant to its release or loss."},
	Waiters: {Name: "baton_waiters", Type: Gauge, Labels: byClass,
		Help: "Contenders of this process that are queued and not granted."},
	Holders: {Name: "baton_holders", Type: Gauge, Labels: byClass,
		Help: "Grants of this process that are neither released nor lost."},
	Releases: {Name: "baton_releases_total", Type: Counter, Labels: byClass,
		Help: "Grants that were released, with or without an answer of the service."},
	ReleaseFailures: {Name: "baton_release_failures_total", Type: Counter, Labels: byClass,
		Help: "Releases that returned an error. Baton repeats them in the background."},
	Lost: {Name: "baton_lost_total", Type: Counter, Labels: []string{"kind", "class", "cause"},
		Help: "Holds that ended without a release."},
	HeldLong: {Name: "baton_held_long_total", Type: Counter, Labels: byClass,
		Help: "Grants that lasted longer than WithHoldWarning or WithMaxHold allows."},
	HeldTooLong: {Name: "baton_held_too_long_total", Type: Counter, Labels: byClass,
		Help: "Grants whose context WithMaxHold ended."},
	LongHolders: {Name: "baton_long_holders", Type: Gauge, Labels: byClass,
		Help: "Present grants that have lasted longer than WithHoldWarning or WithMaxHold allows."},
	Conversions: {Name: "baton_conversions_total", Type: Counter,
		Labels: []string{"kind", "class", "result"},
		Help:   "Conversions of an entry to another mode, done or refused by the service."},
	KeptTurns: {Name: "baton_kept_turns", Type: Gauge, Labels: byClass,
		Help: "Names that this process keeps between two holds, or has kept: see WithRetain."},
	PassOn: {Name: "baton_pass_on_seconds", Type: Histogram, Labels: byClass, Buckets: short,
		Help: "Time from seeing that another client waits for a kept turn until it was passed on."},
	Sessions: {Name: "baton_sessions", Type: Gauge, Labels: []string{"state"},
		Help: "Open sessions by state."},
	SessionsOpened: {Name: "baton_sessions_opened_total", Type: Counter,
		Help: "Sessions that were opened."},
	SessionOpen: {Name: "baton_session_open_seconds", Type: Histogram, Buckets: short,
		Help: "Time to open a session, including all attempts."},
	SessionsSuspended: {Name: "baton_sessions_suspended_total", Type: Counter,
		Help: "Times that a session was suspended: no renewal was answered for a quarter of the TTL."},
	SessionsResumed: {Name: "baton_sessions_resumed_total", Type: Counter,
		Help: "Times that a suspended session was renewed."},
	SessionsEnded: {Name: "baton_sessions_ended_total", Type: Counter, Labels: []string{"cause"},
		Help: "Sessions that ended."},
	Renewal: {Name: "baton_renewal_seconds", Type: Histogram, Buckets: short,
		Help: "Time from sending a renewal to its answer."},
	RenewalMargin: {Name: "baton_renewal_margin_ratio", Type: Histogram, Buckets: share,
		Help: "Time left of a session when a renewal was acknowledged," +
			" as a share of the time that a renewal gives. Below zero it is lost."},
	Retries: {Name: "baton_retries_total", Type: Counter, Labels: []string{"op"},
		Help: "Requests that failed and were sent again."},
	CleanUps: {Name: "baton_cleanups_total", Type: Counter, Labels: []string{"op"},
		Help: "Background clean-ups that have ended."},
	CleanUpsPending: {Name: "baton_cleanups_pending", Type: Gauge, Labels: []string{"op"},
		Help: "Background clean-ups that are running."},
	CleanUpFailures: {Name: "baton_cleanup_failures_total", Type: Counter, Labels: []string{"op"},
		Help: "Failed attempts of background clean-ups. Baton repeats them while the session lives."},
	EventsDropped: {Name: "baton_events_dropped_total", Type: Counter,
		Help: "Events that a slow observer has missed: whole contenders, sessions and clean-ups."},
}

// Metrics returns all metrics, each at the index of its ID.
func Metrics() []Metric { return append([]Metric(nil), metrics[:]...) }
