package dlockmetrics_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log"
	"strings"
	"testing"

	dlock "github.com/libdlock/libdlock/bindings/go"
	"github.com/libdlock/libdlock/bindings/go/dlockmetrics"
	"github.com/prometheus/client_golang/prometheus"
)

const odd = "a\"b\\c"

func used(t testing.TB, name string, times int) *dlock.Client {
	ctx := context.Background()
	client, err := dlock.Open(ctx, "mem:"+name, dlock.With("client.name", odd))
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		hold, err := client.Mutex("one").Lock(ctx)
		if err == nil {
			err = hold.Release(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// The values by name and service; of a histogram the count.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			key := family.GetName()
			for _, label := range metric.Label {
				if label.GetName() == "service" {
					key += " " + label.GetValue()
				} else if label.GetName() == "client" && !strings.HasPrefix(label.GetValue(), odd) {
					t.Error(label.GetValue())
				}
			}
			histogram := metric.GetHistogram()
			values[key] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(histogram.GetSampleCount())
			if n := len(histogram.GetBucket()); histogram != nil &&
				(n < 10 || histogram.Bucket[n-1].GetCumulativeCount() > histogram.GetSampleCount()) {
				t.Error(histogram)
			}
		}
	}
	return values
}

func TestPrometheusSeesTwoClientsOfOneProcess(t *testing.T) {
	one, two := used(t, "one", 1), used(t, "two", 2)
	defer two.Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(dlockmetrics.Collector(one, two))
	seen := gathered(t, registry)
	for key, value := range map[string]float64{"dlock_grants_total mem:one": 1, "dlock_grants_total mem:two": 2,
		"dlock_hold_seconds mem:two": 2, "dlock_wait_seconds mem:two": 2, "dlock_connected mem:one": 1,
		"dlock_client_info mem:one": 1} {
		if seen[key] != value {
			t.Error(key, seen[key], value)
		}
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	seen = gathered(t, registry)
	if _, ok := seen["dlock_connected mem:one"]; ok || seen["dlock_connected mem:two"] != 1 {
		t.Fatal(seen)
	}
}

func TestACollectorOfNoneIsOfAllClients(t *testing.T) {
	client, registry := used(t, "all", 3), prometheus.NewPedanticRegistry()
	defer client.Close()
	registry.MustRegister(dlockmetrics.Collector())
	if seen := gathered(t, registry); seen["dlock_grants_total mem:all"] != 3 {
		t.Fatal(seen)
	}
}

func TestExpvarSeesWhatAClientCounts(t *testing.T) {
	client := used(t, "expvar", 1)
	defer client.Close()
	if err := dlockmetrics.Publish("locks-of-test", client); err != nil {
		t.Fatal(err)
	}
	var values map[string]float64
	err := json.Unmarshal([]byte(expvar.Get("locks-of-test").String()), &values)
	grants := 0.0
	for key, value := range values {
		if strings.HasPrefix(key, "dlock_grants_total{client=") {
			grants += value
		}
	}
	if err != nil || grants != 1 {
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
	prometheus.MustRegister(dlockmetrics.Collector())
	err = dlockmetrics.Publish("locks")
	fmt.Println(err)
	// Output: <nil>
}
