// Package promobserve keeps the metrics of Baton's clients for Prometheus.
//
//	metrics := promobserve.New()
//	prometheus.MustRegister(metrics)
//	client, err := coordinator.Open(url, coordinator.WithObserver(metrics))
//
// New registers nothing. One collector serves all clients of a process
// together; to tell clients of two services apart, make two and register them
// with a label each, by prometheus.WrapRegistererWith. The metrics and labels
// are those of package observe.
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

// Option changes a default of a Collector.
type Option func(*observe.Class)

// WithClass sets the label class, which is empty without it.
func WithClass(class observe.Class) Option { return func(c *observe.Class) { *c = class } }

// New returns a collector.
func New(opts ...Option) *Collector {
	var class observe.Class
	for _, o := range opts {
		o(&class)
	}
	s := newSink()
	return &Collector{Observer: observe.New(s, class), sink: s}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, k := range c.sink {
		k.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, k := range c.sink {
		k.Collect(out)
	}
}

// sink has the keeper of each metric, at the index of its ID.
type sink []keeper

type keeper struct {
	prometheus.Collector
	record func(v float64, values ...string)
}

func newSink() sink {
	var s sink
	for _, m := range observe.Metrics() {
		s = append(s, keep(m))
	}
	return s
}

func keep(m observe.Metric) keeper {
	switch m.Type {
	case observe.Counter:
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return keeper{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Add(v) }}
	case observe.Gauge:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
		return keeper{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Add(v) }}
	default:
		opts := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}
		vec := prometheus.NewHistogramVec(opts, m.Labels)
		return keeper{vec, func(v float64, values ...string) { vec.WithLabelValues(values...).Observe(v) }}
	}
}

// Record implements observe.Sink.
func (s sink) Record(id observe.ID, v float64, values ...string) { s[id].record(v, values...) }
