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
type Option func(*observe.Class)

// WithClass sets the label class, which is empty by default.
func WithClass(class observe.Class) Option { return func(c *observe.Class) { *c = class } }

// New returns a collector. It does not register it.
func New(opts ...Option) *Collector {
	var class observe.Class
	for _, o := range opts {
		o(&class)
	}
	s := newSink()
	return &Collector{Observer: observe.New(s, class), sink: s}
}

// Direct implements event.Direct: counting in memory does not block.
func (c *Collector) Direct() {}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.sink {
		v.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, v := range c.sink {
		v.Collect(out)
	}
}

// sink has the vectors of the metrics, indexed by ID.
type sink []vector

type vector struct {
	prometheus.Collector
	record func(v float64, values ...string)
}

func newSink() sink {
	var s sink
	for _, m := range observe.Metrics() {
		s = append(s, newVector(m))
	}
	return s
}

func newVector(m observe.Metric) vector {
	switch m.Type {
	case observe.Counter:
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return vector{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Add(v) }}
	case observe.Gauge:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return vector{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Add(v) }}
	default:
		opts := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}
		vec := prometheus.NewHistogramVec(opts, m.Labels)
		return vector{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Observe(v) }}
	}
}

// Record implements observe.Sink.
func (s sink) Record(id observe.ID, v float64, values ...string) { s[id].record(v, values...) }
