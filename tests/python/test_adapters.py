"""The adapters for metrics show what the client counts."""
import unittest

import dlock
import dlock.opentelemetry
import dlock.prometheus
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from world import new_name


class Adapters(unittest.TestCase):
    def setUp(self):
        self.client = dlock.Client('mem:')
        self.addCleanup(self.client.close)

    def use(self, times):
        for _ in range(times):
            with self.client.lock(new_name()):
                pass

    def test_prometheus_scrapes_what_the_client_counts(self):
        registry = CollectorRegistry()
        registry.register(dlock.prometheus.Collector(self.client, 'me'))
        self.use(3)
        text = generate_latest(registry).decode()
        for line in ('dlock_grants_total{client="me"} 3.0', 'dlock_connected{client="me"} 1.0',
                     'dlock_hold_seconds_count{client="me"} 3.0',
                     'dlock_hold_seconds_bucket{client="me",le="+Inf"} 3.0'):
            self.assertIn(line, text)
        self.client.close()
        self.assertNotIn('dlock_grants', generate_latest(registry).decode())

    def test_opentelemetry_observes_what_the_client_counts(self):
        reader = InMemoryMetricReader()
        provider = MeterProvider(metric_readers=[reader])
        dlock.opentelemetry.instrument(self.client, name='me', meter_provider=provider)
        self.use(3)
        seen = {metric.name: point for resource in reader.get_metrics_data().resource_metrics
                for scope in resource.scope_metrics for metric in scope.metrics
                for point in metric.data.data_points}
        self.assertEqual(seen['dlock.grants'].value, 3)
        self.assertEqual(seen['dlock.grants'].attributes['dlock.client'], 'me')
        self.assertEqual(seen['dlock.hold.count'].value, 3)
        self.assertEqual(seen['dlock.connected'].value, 1)
        provider.shutdown()
