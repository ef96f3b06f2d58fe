// Package otelobserve gives the metrics and traces of Baton's clients to
// OpenTelemetry. It uses OpenTelemetry's API only: which SDK and which
// exporters there are is up to the program.
//
//	o, err := otelobserve.New()
//	client, err := coordinator.Open(url, coordinator.WithObserver(o))
//
// # Metrics
//
// They are those of package observe, whose comment has the labels, here
// attributes. A name is without Prometheus' suffixes and has dots: the
// instrument baton.wait, in seconds, becomes baton_wait_seconds again where an
// exporter writes it for Prometheus, so dashboards and alerts fit both. Clients
// of two services that are to be told apart have an observer each, with a
// WithAttributes of its own.
//
// # Traces
//
// Each call that was granted or not is a span, named after what was called,
// baton.lock for instance, a child of the span in the caller's context. It is
// made when the call returns, with the time of its beginning, so that spans of
// the caller's other work are not below it. A grant is a span of its own,
// baton.hold, from the grant to its release or loss, linked to that of the
// call, since it ends at its own time. A hold that the process does not live to
// give back has none. Attributes of both are baton.kind, baton.name,
// baton.token and baton.session; here names are, since spans are not counted.
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

// scope names this package to the SDK.
const scope = "github.com/baton-go/baton/coordinator/observe/otelobserve"

// Observer is a event.Observer. It is safe for concurrent use.
type Observer struct {
	metrics event.Observer
	tracer  trace.Tracer
	extra   []attribute.KeyValue
	holds   sync.Map // the span of each grant, by its key
}

// key finds a grant.
type key struct {
	queue, session string
	token          coordinator.Token
}

func keyOf(e event.Event) key { return key{string(e.Queue), e.Session, e.Token} }

// Option changes a default of an Observer.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	class   observe.Class
	extra   []attribute.KeyValue
}

// WithMeterProvider sets whose instruments are used: otel.GetMeterProvider's if it is not called.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets who makes the spans: otel.GetTracerProvider's tracer if it is not called.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithClass gives names a class, which is an attribute of metrics. It must have
// few values. Without it there is one class, without a name.
func WithClass(class observe.Class) Option { return func(c *config) { c.class = class } }

// WithAttributes adds attributes to all metrics and spans.
func WithAttributes(a ...attribute.KeyValue) Option {
	return func(c *config) { c.extra = append(c.extra, a...) }
}

// New returns an observer. The error is the provider's, if it does not make an instrument.
func New(opts ...Option) (*Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		o(&c)
	}
	s, err := newSink(c.meters.Meter(scope), c.extra)
	if err != nil {
		return nil, err
	}
	return &Observer{metrics: observe.New(s, c.class), tracer: c.tracers.Tracer(scope), extra: c.extra}, nil
}

// Observe implements event.Observer.
func (o *Observer) Observe(e event.Event) {
	o.metrics.Observe(e)
	now := time.Now()
	switch e.Kind {
	case event.Granted:
		call := o.call(e, now)
		call.End(trace.WithTimestamp(now))
		_, hold := o.tracer.Start(e.Context, "baton.hold", trace.WithTimestamp(now), trace.WithAttributes(o.attributes(e)...),
			trace.WithLinks(trace.Link{SpanContext: call.SpanContext()}))
		if hold.IsRecording() {
			o.holds.Store(keyOf(e), hold)
		}
	case event.NotGranted:
		call := o.call(e, now)
		reason := observe.Reason(e)
		call.SetAttributes(attribute.String("baton.reason", reason))
		if reason != "taken" && reason != "cancelled" { // which are answers, and what the caller wanted
			call.SetStatus(codes.Error, e.Err.Error())
		}
		call.End(trace.WithTimestamp(now))
	case event.Reentered, event.HeldLong, event.HeldTooLong, event.Converted:
		if hold, ok := o.holds.Load(keyOf(e)); ok {
			hold.(trace.Span).AddEvent(e.Kind.String(), trace.WithTimestamp(now))
		}
	case event.Released, event.Lost:
		if hold, ok := o.holds.LoadAndDelete(keyOf(e)); ok {
			o.over(hold.(trace.Span), e, now)
		}
	}
}

// call begins the span of a call that has just ended.
func (o *Observer) call(e event.Event, now time.Time) trace.Span {
	_, span := o.tracer.Start(e.Context, "baton."+e.Op, trace.WithTimestamp(now.Add(-e.Duration)), trace.WithAttributes(o.attributes(e)...))
	span.SetAttributes(attribute.Bool("baton.contended", e.Waited))
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

// sink has, at the index of each metric's ID, what records it.
type sink []func(v float64, with metric.MeasurementOption)

// keeper is a sink, and how to name what it is given.
type keeper struct {
	sink
	labels [][]attribute.Key
	extra  []attribute.KeyValue
}

func newSink(m metric.Meter, extra []attribute.KeyValue) (*keeper, error) {
	k := &keeper{extra: extra}
	for _, d := range observe.Metrics() {
		f, err := record(m, d)
		if err != nil {
			return nil, err
		}
		k.sink = append(k.sink, f)
		var keys []attribute.Key
		for _, l := range d.Labels {
			keys = append(keys, attribute.Key(l))
		}
		k.labels = append(k.labels, keys)
	}
	return k, nil
}

// record makes the instrument of a metric.
func record(m metric.Meter, d observe.Metric) (func(float64, metric.MeasurementOption), error) {
	ctx := context.Background()
	about, unit := metric.WithDescription(d.Help), metric.WithUnit(d.Unit())
	switch d.Type {
	case observe.Counter:
		i, err := m.Int64Counter(nameOf(d), about, unit)
		return func(v float64, with metric.MeasurementOption) { i.Add(ctx, int64(v), with) }, err
	case observe.Gauge:
		i, err := m.Int64UpDownCounter(nameOf(d), about, unit)
		return func(v float64, with metric.MeasurementOption) { i.Add(ctx, int64(v), with) }, err
	default:
		i, err := m.Float64Histogram(nameOf(d), about, unit, metric.WithExplicitBucketBoundaries(d.Buckets...))
		return func(v float64, with metric.MeasurementOption) { i.Record(ctx, v, with) }, err
	}
}

// nameOf is the name of a metric in OpenTelemetry's manner, from which
// exporters for Prometheus make the other one.
func nameOf(d observe.Metric) string {
	name := strings.TrimSuffix(strings.TrimSuffix(d.Name, "_total"), "_seconds")
	return strings.ReplaceAll(name, "_", ".")
}

// Record implements observe.Sink.
func (k *keeper) Record(id observe.ID, v float64, values ...string) {
	set := make([]attribute.KeyValue, 0, len(values)+len(k.extra))
	for i, value := range values {
		if value != "" {
			set = append(set, k.labels[id][i].String(value))
		}
	}
	k.sink[id](v, metric.WithAttributeSet(attribute.NewSet(append(set, k.extra...)...)))
}
