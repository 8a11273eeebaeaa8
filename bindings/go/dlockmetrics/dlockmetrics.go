// Package dlockmetrics shows what a [dlock.Client] counts and does: to Prometheus, and to expvar. It is
// a view of [dlock.Metrics], under the same names in every language. It is a module of its own, so that
// who doesn't want it doesn't fetch Prometheus' client.
package dlockmetrics

import (
	"expvar"
	"fmt"
	"maps"
	"slices"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
)

type collector struct{ clients []*dlock.Client }

// Collector is these clients as Prometheus wants them, until they are closed; without any, all there
// are in this process at the time of the scrape. Each has its labels client and service. Further ones
// of your own: [prometheus.WrapCollectorWith].
func Collector(clients ...*dlock.Client) prometheus.Collector { return collector{clients} }

// Nothing is described: several collectors of other clients may be registered together, and which names
// there are is libdlock's to say.
func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) {
	families, err := familiesOf(c.clients)
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("dlock", "What went wrong.", nil, nil), err)
		return
	}
	for _, family := range families {
		for _, one := range family.series {
			to <- metric(family, one)
		}
	}
}

func metric(family *family, of *series) prometheus.Metric {
	keys := slices.Sorted(maps.Keys(of.labels))
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = of.labels[key]
	}
	name, kind := family.name, prometheus.GaugeValue
	switch family.kind {
	case "counter":
		name, kind = name+"_total", prometheus.CounterValue
	case "info":
		name += "_info"
	}
	desc := prometheus.NewDesc(name, family.help, keys, nil)
	if family.kind == "histogram" {
		return prometheus.MustNewConstHistogram(desc, of.count, of.value, of.buckets, values...)
	}
	return prometheus.MustNewConstMetric(desc, kind, of.value, values...)
}

// Publish shows clients as the variable name of package expvar, by series; without any, all of this
// process. Of histograms there are count and sum. An error when there is one of this name already.
func Publish(name string, clients ...*dlock.Client) error {
	if expvar.Get(name) != nil {
		return fmt.Errorf("dlockmetrics: %q is published already", name)
	}
	expvar.Publish(name, expvar.Func(func() any {
		families, err := familiesOf(clients)
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		values := map[string]float64{}
		for _, family := range families {
			for _, one := range family.series {
				show(values, family, one)
			}
		}
		return values
	}))
	return nil
}

func show(values map[string]float64, family *family, of *series) {
	switch family.kind {
	case "counter":
		values[family.name+"_total"+of.key] = of.value
	case "histogram":
		values[family.name+"_count"+of.key] = float64(of.count)
		values[family.name+"_sum"+of.key] = of.value
	default:
		values[family.name+of.key] = of.value
	}
}
