"""What clients count, as Prometheus' and OpenTelemetry's own libraries see it."""
import shutil
import subprocess
import threading
import unittest

import dlock
import dlock.opentelemetry
import dlock.prometheus
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from world import new_name

ODD = 'a "name" with \\'


def parsed(text):
    """The families by name, by Prometheus' own parser, which refuses what isn't OpenMetrics."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(text, name, **labels):
    """Those of the samples of this name with these labels."""
    return [sample.value for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()]


class Metrics(unittest.TestCase):
    def setUp(self):
        self.client = dlock.Client(f'mem:{new_name()}', name=ODD)
        self.addCleanup(self.client.close)
        self.url = self.client.url

    def use(self, client, times):
        for _ in range(times):
            with client.lock(new_name()):
                pass

    def other(self):
        client = dlock.Client(self.url, name=ODD)
        self.addCleanup(client.close)
        return client

    def test_the_text_is_openmetrics(self):
        self.use(self.client, 3)
        families = parsed(self.client.metrics())
        self.assertEqual(families['dlock_grants'].samples[0].labels,
                         {'client': ODD, 'service': self.url})
        self.assertEqual(families['dlock_hold_seconds'].type, 'histogram')
        self.assertEqual(families['dlock_hold_seconds'].unit, 'seconds')
        self.assertEqual(families['dlock_sent_bytes'].unit, 'bytes')
        for family in families.values():
            self.assertTrue(family.name.startswith('dlock_') and family.documentation)
            self.assertIn(family.type, ('counter', 'gauge', 'histogram', 'info'))

    def test_what_a_url_may_have_ends_no_line(self):
        with dlock.Client(f'mem:{new_name()}\u2028\x85', name=ODD) as client:
            self.use(client, 3)
            registry = CollectorRegistry()
            registry.register(dlock.prometheus.Collector())
            text = generate_openmetrics(registry).decode()
            self.assertEqual(values(text, 'dlock_grants_total', service=client.url), [3])

    def test_it_stays_openmetrics_while_others_lock(self):
        ends = threading.Event()

        def work():
            while not ends.is_set():
                self.use(self.client, 10)
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(50):
                text = dlock.metrics()
                self.assertEqual(values(text, 'dlock_grants_total', service=self.url),
                                 values(text, 'dlock_wait_seconds_count', service=self.url,
                                        result='granted'))
        finally:
            ends.set()
            for worker in workers:
                worker.join()

    def test_prometheus_scrapes_what_two_clients_of_one_name_count(self):
        other = self.other()
        for collector in (dlock.prometheus.Collector(self.client, other),
                          dlock.prometheus.Collector()):
            registry = CollectorRegistry(auto_describe=True)
            registry.register(collector)
            self.use(self.client, 1)
            self.use(other, 2)
            text = generate_openmetrics(registry).decode()
            grants = values(text, 'dlock_grants_total', service=self.url)
            self.assertEqual(len(grants), 2)
            self.assertEqual(grants[1], 2 * grants[0])
            self.assertEqual(values(text, 'dlock_hold_seconds_bucket', service=self.url,
                                    le='+Inf'), grants)

    def test_a_closed_client_is_left_out(self):
        other = self.other()
        registry = CollectorRegistry()
        registry.register(dlock.prometheus.Collector(self.client, other))
        self.client.close()
        self.assertEqual(values(generate_openmetrics(registry).decode(), 'dlock_connected'), [1])
        other.close()
        self.assertEqual(parsed(generate_openmetrics(registry).decode()), {})

    @unittest.skipUnless(shutil.which('promtool'), 'promtool, of the package prometheus')
    def test_promtool_has_nothing_to_say(self):
        registry = CollectorRegistry()
        registry.register(dlock.prometheus.Collector())
        done = subprocess.run(['promtool', 'check', 'metrics'], input=generate_latest(registry),
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b'', b''))

    def test_opentelemetry_observes_what_clients_count(self):
        reader = InMemoryMetricReader()
        provider = MeterProvider(metric_readers=[reader])
        self.addCleanup(provider.shutdown)
        dlock.opentelemetry.instrument(self.client, meter_provider=provider)
        for times in (3, 6):
            self.use(self.client, 3)
            seen = {metric.name: (metric.unit, point)
                    for resource in reader.get_metrics_data().resource_metrics
                    for scope in resource.scope_metrics for metric in scope.metrics
                    for point in metric.data.data_points}
            self.assertEqual(seen['dlock.grants'][1].value, times)
            self.assertEqual(seen['dlock.grants'][1].attributes,
                             {'dlock.client': ODD, 'dlock.service': self.url})
            self.assertEqual(seen['dlock.hold_seconds.count'][1].value, times)
            self.assertEqual(seen['dlock.hold_seconds.sum'][0], 's')
            self.assertEqual(seen['dlock.sent_bytes'][0], 'By')
            self.assertEqual(seen['dlock.connected'][1].value, 1)
