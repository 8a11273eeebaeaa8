// Package dlockmetrics shows what a [dlock.Client] has counted: to Prometheus, and to expvar. It is a
// module of its own, so that who doesn't want it doesn't fetch Prometheus' client.
package dlockmetrics

import (
	"expvar"
	"fmt"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
)

// One counter: its name behind "dlock_", its text, and where it is.
type counter struct {
	name, help string
	of         func(dlock.Stats) int64
}

var counters = []counter{
	{"grants_total", "Locks that were obtained.", func(s dlock.Stats) int64 { return s.Grants }},
	{"waits_total", "Acquires that had to wait.", func(s dlock.Stats) int64 { return s.Waits }},
	{"timeouts_total", "Acquires that timed out.", func(s dlock.Stats) int64 { return s.Timeouts }},
	{"cancels_total", "Acquires that were cancelled.", func(s dlock.Stats) int64 { return s.Cancels }},
	{"releases_total", "Locks that were released.", func(s dlock.Stats) int64 { return s.Releases }},
	{"releases_failed_total", "Releases that weren't confirmed.",
		func(s dlock.Stats) int64 { return s.ReleasesFailed }},
	{"renewals_total", "Leases that were renewed.", func(s dlock.Stats) int64 { return s.Renewals }},
	{"renewals_failed_total", "Renewals that failed.", func(s dlock.Stats) int64 { return s.RenewalsFailed }},
	{"suspects_total", "Holds that weren't renewed for half their lease.",
		func(s dlock.Stats) int64 { return s.Suspects }},
	{"losses_total", "Locks that were lost.", func(s dlock.Stats) int64 { return s.Losses }},
	{"commands_total", "Commands sent to the service.", func(s dlock.Stats) int64 { return s.Commands }},
	{"bytes_sent_total", "Bytes sent to the service.", func(s dlock.Stats) int64 { return s.BytesSent }},
	{"bytes_received_total", "Bytes received from it.", func(s dlock.Stats) int64 { return s.BytesReceived }},
	{"reconnects_total", "Connections that were made anew.", func(s dlock.Stats) int64 { return s.Reconnects }},
}

type collector struct {
	client *dlock.Client
	descs  []*prometheus.Desc
	wait   *prometheus.Desc
	hold   *prometheus.Desc
	up     *prometheus.Desc
}

// Collector is a client as Prometheus wants it; labels are put to everything, to tell several
// clients apart. After the client's Close only dlock_up is left, and says 0.
func Collector(client *dlock.Client, labels map[string]string) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("dlock_"+name, help, nil, labels)
	}
	c := &collector{client: client, up: desc("up", "Whether the client is open."),
		wait: desc("wait_seconds", "How long acquires took."), hold: desc("hold_seconds", "How long locks were held.")}
	for _, one := range counters {
		c.descs = append(c.descs, desc(one.name, one.help))
	}
	return c
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range append(c.descs, c.up, c.wait, c.hold) {
		to <- desc
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	stats, err := c.client.Stats()
	up := 1.0
	if err != nil {
		up = 0
	}
	to <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up)
	if err != nil {
		return
	}
	for i, one := range counters {
		to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.CounterValue, float64(one.of(stats)))
	}
	to <- summary(c.wait, stats.Wait)
	to <- summary(c.hold, stats.Hold)
}

func summary(desc *prometheus.Desc, times dlock.Times) prometheus.Metric {
	return prometheus.MustNewConstSummary(desc, uint64(times.Count), times.Sum.Seconds(),
		map[float64]float64{0.5: times.P50.Seconds(), 0.99: times.P99.Seconds()})
}

// Publish shows a client as the variable name of package expvar. An error when there is one of this
// name already.
func Publish(name string, client *dlock.Client) error {
	if expvar.Get(name) != nil {
		return fmt.Errorf("dlockmetrics: %q is published already", name)
	}
	expvar.Publish(name, expvar.Func(func() any {
		stats, err := client.Stats()
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		values := map[string]int64{}
		for _, one := range counters {
			values[one.name] = one.of(stats)
		}
		return values
	}))
	return nil
}
