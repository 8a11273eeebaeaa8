package dlockmetrics_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log"
	"testing"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/dlockmetrics"
	"github.com/prometheus/client_golang/prometheus"
)

func used(t testing.TB, name string) *dlock.Client {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:"+name)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := client.Mutex("one").Lock(ctx)
	if err == nil {
		err = hold.Release(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			values[family.GetName()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetSummary().GetSampleCount())
		}
	}
	return values
}

func TestPrometheusSeesWhatAClientCounts(t *testing.T) {
	client, registry := used(t, "prometheus"), prometheus.NewPedanticRegistry()
	registry.MustRegister(dlockmetrics.Collector(client, map[string]string{"service": "test"}))
	seen := gathered(t, registry)
	if seen["dlock_up"] != 1 || seen["dlock_grants_total"] != 1 || seen["dlock_releases_total"] != 1 ||
		seen["dlock_hold_seconds"] != 1 || len(seen) < 15 {
		t.Fatal(seen)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if seen := gathered(t, registry); len(seen) != 1 || seen["dlock_up"] != 0 {
		t.Fatal(seen)
	}
}

func TestExpvarSeesWhatAClientCounts(t *testing.T) {
	client := used(t, "expvar")
	defer client.Close()
	if err := dlockmetrics.Publish("locks-of-test", client); err != nil {
		t.Fatal(err)
	}
	var values map[string]int64
	err := json.Unmarshal([]byte(expvar.Get("locks-of-test").String()), &values)
	if err != nil || values["grants_total"] != 1 {
		t.Fatal(values, err)
	}
	if dlockmetrics.Publish("locks-of-test", client) == nil {
		t.Fatal("published twice")
	}
}

func ExampleCollector() {
	client, err := dlock.Open(context.Background(), "mem:metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	prometheus.MustRegister(dlockmetrics.Collector(client, nil))
	err = dlockmetrics.Publish("locks", client)
	fmt.Println(err)
	// Output: <nil>
}
