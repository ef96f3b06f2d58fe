package otelobserve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// spans is a TracerProvider that keeps spans. Baton does not depend on the SDK,
// not even in tests.
type spans struct {
	tracenoop.TracerProvider

	mu  sync.Mutex
	all []*span
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{s: s} }

type tracer struct {
	tracenoop.Tracer
	s *spans
}

type span struct {
	tracenoop.Span
	name         string
	began, ended time.Time
	context      trace.SpanContext
	parent       trace.SpanContext
	links        []trace.Link
	attributes   map[attribute.Key]attribute.Value
	events       []string
	status       codes.Code
	text         string // of the status
}

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	x := &span{name: name, began: c.Timestamp(), parent: trace.SpanContextFromContext(ctx), links: c.Links(), attributes: map[attribute.Key]attribute.Value{}}
	x.SetAttributes(c.Attributes()...)
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.all = append(t.s.all, x)
	x.context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{byte(len(t.s.all))}})
	return trace.ContextWithSpan(ctx, x), x
}

func (x *span) SpanContext() trace.SpanContext { return x.context }
func (x *span) IsRecording() bool              { return x.ended.IsZero() }
func (x *span) SetStatus(c codes.Code, text string) {
	x.status, x.text = c, text
}

func (x *span) SetAttributes(all ...attribute.KeyValue) {
	for _, a := range all {
		x.attributes[a.Key] = a.Value
	}
}

func (x *span) AddEvent(name string, _ ...trace.EventOption) { x.events = append(x.events, name) }

func (x *span) End(opts ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(opts...)
	if x.ended = c.Timestamp(); x.ended.IsZero() {
		x.ended = time.Now()
	}
}

// String returns the name, duration and attributes of a span.
func (x *span) String() string {
	var with []string
	for key, value := range x.attributes {
		if key != "baton.session" {
			with = append(with, fmt.Sprintf("%s=%s", key, value.String()))
		}
	}
	slices.Sort(with)
	return fmt.Sprintf("%s %v %s", x.name, x.ended.Sub(x.began), strings.Join(with, " "))
}

// sums is a MeterProvider that adds up values by instrument and attributes.
type sums struct {
	metricnoop.MeterProvider
	fails error

	mu sync.Mutex
	of map[string]float64
}

func (s *sums) Meter(string, ...metric.MeterOption) metric.Meter { return meter{s: s} }

func (s *sums) add(name, unit string, v float64, set attribute.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]float64{}
	}
	s.of[strings.TrimSpace(name+unit+" "+set.Encoded(attribute.DefaultEncoder()))] += v
}

type meter struct {
	metricnoop.Meter
	s *sums
}

type counter struct {
	metricnoop.Int64Counter
	name string
	s    *sums
}

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{name: name, s: m.s}, m.s.fails
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	c.s.add(c.name, "", float64(n), metric.NewAddConfig(opts).Attributes())
}

type gauge struct {
	metricnoop.Int64UpDownCounter
	name string
	s    *sums
}

func (m meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return gauge{name: name, s: m.s}, m.s.fails
}

func (g gauge) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	g.s.add(g.name, "", float64(n), metric.NewAddConfig(opts).Attributes())
}

type histogram struct {
	metricnoop.Float64Histogram
	name, unit string
	s          *sums
}

func (m meter) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(opts...)
	if len(c.ExplicitBucketBoundaries()) == 0 {
		return nil, fmt.Errorf("%s has no buckets", name)
	}
	return histogram{name: name, unit: "[" + c.Unit() + "]", s: m.s}, m.s.fails
}

func (h histogram) Record(_ context.Context, v float64, opts ...metric.RecordOption) {
	h.s.add(h.name, h.unit, v, metric.NewRecordConfig(opts).Attributes())
}
