// Package otelobserve sends the metrics and traces of Baton's clients to
// OpenTelemetry. It uses only OpenTelemetry's API: the program chooses the SDK
// and the exporters.
//
//	o, err := otelobserve.New()
//	client, err := coordinator.Open(url, coordinator.WithObserver(o))
//
// # Metrics
//
// The metrics are those of package observe, with its labels as attributes. The
// instrument baton.wait, in seconds, is baton_wait_seconds in Prometheus, so
// the same dashboards and alerts work. To distinguish clients of two services,
// give each an observer with WithAttributes. Metrics of calls are recorded with
// the caller's context, so an SDK can attach the caller's trace as an exemplar.
//
// # Traces
//
// Each call is a span below the caller's, for instance baton.lock. The observer
// creates it after the call has returned, with the times of the call. Each
// grant is a span baton.hold from the grant to its release or loss, linked to
// the span of the call. Both have the attributes baton.kind, baton.name,
// baton.token and baton.session.
package otelobserve

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/observe"
)

// scope is the instrumentation scope.
const scope = "github.com/baton-go/baton/coordinator/observe/otelobserve"

// Observer is an event.Observer. It is safe for concurrent use.
type Observer struct {
	metrics event.Observer
	tracer  trace.Tracer
	extra   []attribute.KeyValue

	mu sync.Mutex
	// the spans of present holds; several if two services have the same ids, as
	// those in memory do
	holds map[key][]trace.Span
}

// key identifies a grant.
type key struct {
	queue, session string
	token          coordinator.Token
}

func keyOf(e event.Event) key { return key{string(e.Queue), e.Session, e.Token} }

// Option configures an Observer.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	class   observe.Class
	extra   []attribute.KeyValue
}

// WithMeterProvider sets the provider, by default otel.GetMeterProvider().
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets the provider, by default otel.GetTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithClass adds the attribute class to metrics.
func WithClass(class observe.Class) Option { return func(c *config) { c.class = class } }

// WithAttributes adds attributes to all metrics and spans.
func WithAttributes(a ...attribute.KeyValue) Option {
	return func(c *config) { c.extra = append(c.extra, a...) }
}

// New returns an observer, or an error if the provider cannot make an
// instrument.
func New(opts ...Option) (*Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		o(&c)
	}
	s, err := newSink(c.meters.Meter(scope), c.extra)
	if err != nil {
		return nil, err
	}
	o := &Observer{tracer: c.tracers.Tracer(scope), extra: c.extra, holds: map[key][]trace.Span{}}
	o.metrics = observe.New(s, c.class)
	return o, nil
}

// Observe implements event.Observer.
func (o *Observer) Observe(e event.Event) {
	o.metrics.Observe(e)
	now := e.Time
	switch e.Kind {
	case event.Granted:
		call := o.call(e, now)
		call.End(trace.WithTimestamp(now))
		hold := o.start(e, "baton.hold", now, trace.Link{SpanContext: call.SpanContext()})
		if hold.IsRecording() {
			o.add(keyOf(e), hold)
		}
	case event.NotGranted:
		call := o.call(e, now)
		reason := observe.Reason(e)
		call.SetAttributes(attribute.String("baton.reason", reason))
		if reason != "taken" && reason != "cancelled" { // neither is a failure
			call.SetStatus(codes.Error, e.Err.Error())
		}
		call.End(trace.WithTimestamp(now))
	case event.Reentered, event.HeldLong, event.HeldTooLong, event.Converted:
		if hold := o.hold(keyOf(e), false); hold != nil {
			hold.AddEvent(e.Kind.String(), trace.WithTimestamp(now))
		}
	case event.Released, event.Lost:
		if hold := o.hold(keyOf(e), true); hold != nil {
			o.over(hold, e, now)
		}
	}
}

func (o *Observer) add(k key, hold trace.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holds[k] = append(o.holds[k], hold)
}

// hold returns the oldest span of a grant, or nil.
func (o *Observer) hold(k key, remove bool) trace.Span {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.holds[k]
	switch {
	case len(all) == 0:
		return nil
	case remove && len(all) == 1:
		delete(o.holds, k)
	case remove:
		o.holds[k] = all[1:]
	}
	return all[0]
}

// call starts the span of a call that has just returned, at its beginning.
func (o *Observer) call(e event.Event, now time.Time) trace.Span {
	span := o.start(e, "baton."+e.Op, now.Add(-e.Duration))
	span.SetAttributes(attribute.Bool("baton.contended", e.Waited))
	return span
}

func (o *Observer) start(e event.Event, name string, at time.Time, links ...trace.Link) trace.Span {
	_, span := o.tracer.Start(e.Context, name, trace.WithTimestamp(at),
		trace.WithAttributes(o.attributes(e)...), trace.WithLinks(links...))
	return span
}

// over ends the span of a hold.
func (o *Observer) over(hold trace.Span, e event.Event, now time.Time) {
	if e.Kind == event.Lost {
		hold.SetAttributes(attribute.String("baton.cause", observe.Cause(e.Err)))
	}
	if e.Err != nil {
		hold.SetStatus(codes.Error, e.Kind.String()+": "+e.Err.Error())
	}
	hold.End(trace.WithTimestamp(now))
}

func (o *Observer) attributes(e event.Event) []attribute.KeyValue {
	kind, name, _ := e.Queue.Split()
	return append([]attribute.KeyValue{
		attribute.String("baton.kind", kind), attribute.String("baton.name", name),
		attribute.Int64("baton.token", int64(e.Token)), attribute.String("baton.session", e.Session),
	}, o.extra...)
}

// sink has the instruments of the metrics, indexed by ID.
type sink struct {
	instruments []instrument
	extra       []attribute.KeyValue
}

type instrument struct {
	record func(ctx context.Context, v float64, with metric.MeasurementOption)
	labels []string
}

func newSink(m metric.Meter, extra []attribute.KeyValue) (*sink, error) {
	s := &sink{extra: extra}
	for _, d := range observe.Metrics() {
		f, err := record(m, d)
		if err != nil {
			return nil, err
		}
		s.instruments = append(s.instruments, instrument{f, d.Labels})
	}
	return s, nil
}

// record makes the instrument of a metric, and returns a function that uses it.
func record(
	m metric.Meter, d observe.Metric,
) (func(context.Context, float64, metric.MeasurementOption), error) {
	about, unit := metric.WithDescription(d.Help), metric.WithUnit(d.Unit())
	switch d.Type {
	case observe.Counter:
		i, err := m.Int64Counter(nameOf(d), about, unit)
		return func(ctx context.Context, v float64, with metric.MeasurementOption) { i.Add(ctx, int64(v), with) }, err
	case observe.Gauge:
		i, err := m.Int64UpDownCounter(nameOf(d), about, unit)
		return func(ctx context.Context, v float64, with metric.MeasurementOption) { i.Add(ctx, int64(v), with) }, err
	default:
		buckets := metric.WithExplicitBucketBoundaries(d.Buckets...)
		i, err := m.Float64Histogram(nameOf(d), about, unit, buckets)
		return func(ctx context.Context, v float64, with metric.MeasurementOption) { i.Record(ctx, v, with) }, err
	}
}

// nameOf returns the name of a metric in OpenTelemetry's style. Exporters for
// Prometheus turn it into the metric's name again.
func nameOf(d observe.Metric) string {
	name := strings.TrimSuffix(strings.TrimSuffix(d.Name, "_total"), "_seconds")
	return strings.ReplaceAll(name, "_", ".")
}

// Record implements observe.Sink.
func (s *sink) Record(ctx context.Context, id observe.ID, v float64, values ...string) {
	i := s.instruments[id]
	set := make([]attribute.KeyValue, 0, len(values)+len(s.extra))
	for n, value := range values {
		if value != "" {
			set = append(set, attribute.String(i.labels[n], value))
		}
	}
	i.record(ctx, v, metric.WithAttributeSet(attribute.NewSet(append(set, s.extra...)...)))
}
