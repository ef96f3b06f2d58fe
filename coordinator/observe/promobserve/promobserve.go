// Package promobserve exports the metrics of Baton's clients to Prometheus.
//
//	metrics := promobserve.New()
//	prometheus.MustRegister(metrics)
//	client, err := coordinator.Open(url, coordinator.WithObserver(metrics))
//
// The metrics and labels are those of package observe. Several clients can
// share a collector. To distinguish clients of two services, make two
// collectors and register each with a label: see prometheus.WrapRegistererWith.
package promobserve

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/observe"
)

// Collector is an event.Observer and a prometheus.Collector. It is safe for
// concurrent use.
type Collector struct {
	event.Observer
	sink sink
}

// Option configures a Collector.
type Option func(*config)

type config struct {
	class    observe.Class
	exemplar func(context.Context) prometheus.Labels
}

// WithClass sets the label class, which is empty by default.
func WithClass(class observe.Class) Option { return func(c *config) { c.class = class } }

// WithExemplar adds exemplars to the counters and histograms of calls:
// baton_grants_total, baton_not_granted_total, baton_wait_seconds and others. f
// returns the labels, for instance the trace's ID, from the values of the
// caller's context; nil for no exemplar. It must not block.
func WithExemplar(f func(context.Context) prometheus.Labels) Option {
	return func(c *config) { c.exemplar = f }
}

// New returns a collector. It does not register it.
func New(opts ...Option) *Collector {
	c := config{exemplar: func(context.Context) prometheus.Labels { return nil }}
	for _, o := range opts {
		o(&c)
	}
	s := newSink(c.exemplar)
	return &Collector{Observer: observe.New(s, c.class), sink: s}
}

// Direct implements event.Direct: counting in memory does not block.
func (c *Collector) Direct() {}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.sink.vectors {
		v.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, v := range c.sink.vectors {
		v.Collect(out)
	}
}

// sink has the vectors of the metrics, indexed by ID.
type sink struct {
	vectors  []vector
	exemplar func(context.Context) prometheus.Labels
}

type vector struct {
	prometheus.Collector
	record func(v float64, exemplar prometheus.Labels, values ...string)
}

func newSink(exemplar func(context.Context) prometheus.Labels) sink {
	s := sink{exemplar: exemplar}
	for _, m := range observe.Metrics() {
		s.vectors = append(s.vectors, newVector(m))
	}
	return s
}

func newVector(m observe.Metric) vector {
	switch m.Type {
	case observe.Counter:
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return vector{vec, func(v float64, exemplar prometheus.Labels, values ...string) {
			c := vec.WithLabelValues(values...)
			if a, ok := c.(prometheus.ExemplarAdder); ok && exemplar != nil && v > 0 {
				a.AddWithExemplar(v, exemplar)
				return
			}
			c.Add(v)
		}}
	case observe.Gauge:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return vector{vec, func(v float64, _ prometheus.Labels, values ...string) {
			vec.WithLabelValues(values...).Add(v)
		}}
	default:
		opts := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}
		vec := prometheus.NewHistogramVec(opts, m.Labels)
		return vector{vec, func(v float64, exemplar prometheus.Labels, values ...string) {
			h := vec.WithLabelValues(values...)
			if o, ok := h.(prometheus.ExemplarObserver); ok && exemplar != nil {
				o.ObserveWithExemplar(v, exemplar)
				return
			}
			h.Observe(v)
		}}
	}
}

// Record implements observe.Sink.
func (s sink) Record(ctx context.Context, id observe.ID, v float64, values ...string) {
	s.vectors[id].record(v, s.exemplar(ctx), values...)
}
