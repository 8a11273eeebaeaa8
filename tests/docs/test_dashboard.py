"""The dashboard in docs/grafana: Prometheus' own parser reads each panel's query, and each name and
label in it is one that dlock_client_metrics tells."""
import ctypes
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tap

DASHBOARD = Path(__file__).resolve().parents[2] / 'docs' / 'grafana' / 'dlock.json'
BUILD = Path(sys.argv[1])


def page():
    """What a client tells."""
    library = ctypes.CDLL(str(BUILD / 'libdlock' / 'libdlock.so.0'))
    client, text = ctypes.c_void_p(), ctypes.c_char_p()
    if library.dlock_client_open(b'mem:', None, ctypes.byref(client), None) != 0:
        raise AssertionError('mem: does not open')
    if library.dlock_client_metrics(client, ctypes.byref(text), None) != 0:
        raise AssertionError('no metrics')
    told = text.value.decode()
    library.dlock_text_free(text)
    library.dlock_client_free(client)
    return told


def series():
    """Name, and its labels, of all that there is."""
    found = {}
    for name, labels in re.findall(r'^(dlock_\w+)\{(.*)\} ', page(), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
    return found


def queries():
    """Title and expression of each panel, as Grafana sends them."""
    for panel in json.loads(DASHBOARD.read_text())['panels']:
        for target in panel['targets']:
            text = target['expr'].replace('$__rate_interval', '5m')
            yield panel['title'], re.sub(r'\$(client|service)', '.*', text)


def each_panels_query_is_one_to_prometheus():
    if not shutil.which('promtool'):
        raise tap.Skip('there is no promtool: it is in the package prometheus')
    rules = [{'record': f'panel:{n}', 'expr': text} for n, (_, text) in enumerate(queries())]
    with tempfile.NamedTemporaryFile('w', suffix='.yml') as file:
        json.dump({'groups': [{'name': 'panels', 'rules': rules}]}, file)  # YAML, too
        file.flush()
        done = subprocess.run(['promtool', 'check', 'rules', file.name], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or f'{len(rules)} rules found' not in done.stdout:
        raise AssertionError(done.stdout)


def each_name_and_label_is_one_that_there_is():
    told = series()
    for title, text in queries():
        names = re.findall(r'dlock_\w+', text)
        if not names:
            raise AssertionError(f'{title}: asks for nothing of ours')
        for name in names:
            if name not in told:
                raise AssertionError(f'{title}: there is no {name}')
        for name, matchers in re.findall(r'(dlock_\w+)\{([^}]*)\}', text):
            for key, how, value in re.findall(r'(\w+)(=~?)"([^"]*)"', matchers):
                if how == '=' and (key, value) not in told[name]:
                    raise AssertionError(f'{title}: {name} has no {key}="{value}"')
                if key not in {label for label, _ in told[name]}:
                    raise AssertionError(f'{title}: {name} has no label {key}')
        labels = {label for name in names for label, _ in told.get(name, ())}
        for by in re.findall(r'by \(([^)]*)\)', text):
            if not set(by.replace(' ', '').split(',')) <= labels:
                raise AssertionError(f'{title}: nothing has all of {by}')


def panels_show_the_legends_that_they_group_by():
    for panel in json.loads(DASHBOARD.read_text())['panels']:
        for target in panel['targets']:
            for label in re.findall(r'\{\{(\w+)\}\}', target['legendFormat']):
                if not re.search(rf'by \([^)]*\b{label}\b', target['expr']):
                    raise AssertionError(f'{panel["title"]}: {label} is not what it groups by')


if __name__ == '__main__':
    TESTS = (each_panels_query_is_one_to_prometheus, each_name_and_label_is_one_that_there_is,
             panels_show_the_legends_that_they_group_by)
    sys.exit(tap.main([(test.__name__, test) for test in TESTS]))
