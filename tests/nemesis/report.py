"""The table at the end of a run: what was done, what was done to it, and what must be 0."""
import collections

ROWS = [
    ('operations', 'asks'), ('grants', 'grants'), ('not granted', 'refusals'),
    ('no answer', 'unanswered'), ('writes accepted', 'writes'), ('losses', 'losses'),
    ('stale writes tried', 'stale_tried'), ('stale writes refused', 'stale_refused'),
    ('stale writes accepted', 'stale_accepted'), ('overlaps', 'overlaps'),
    ('overlaps after loss of state', 'excused_overlaps'), ('lost updates', 'lost_updates'),
    ('tokens out of order', 'old_tokens'), ('overtaken in the queue', 'overtaken'),
    ('used after loss', 'used_after_loss'),
]
LONGEST = [
    ('longest wait for a free lock, ms', 'longest_free_wait_ms'),
    ('longest wait beyond its end, ms', 'longest_overshoot_ms'),
    ('longest from wipe to LOST, ms', 'longest_notice_ms'),
]


class Table:
    def __init__(self, backends):
        self.backends = backends
        self.sums = {name: collections.Counter() for name in backends}
        self.longest = {name: collections.Counter() for name in backends}
        self.faults = collections.Counter()
        self.killed = collections.Counter()
        self.orphans = collections.Counter()
        self.resource = collections.Counter()
        self.complaints = collections.Counter()
        self.verdicts = {name: collections.Counter() for name in backends}
        self.records = self.seconds = 0

    def add(self, sums, faults, orphans, resource, killed, complaints, seconds):
        """One round's."""
        for name, tally in sums['backends'].items():
            for _, key in ROWS:
                self.sums[name][key] += tally[key]
            for _, key in LONGEST:
                self.longest[name][key] = max(self.longest[name][key], tally[key])
        self.faults.update(faults)
        self.killed.update(killed)
        self.orphans.update(orphans)
        self.resource.update(resource)
        self.complaints.update(complaints)
        self.records += sums['records']
        self.seconds += seconds

    def judged(self, verdicts):
        """{backend: {verdict: pieces}} of the check for linearizability."""
        for name, counts in verdicts.items():
            self.verdicts[name].update(counts)

    def line(self, number):
        """How far it is, in one line."""
        grants = sum(tally['grants'] for tally in self.sums.values())
        return (f'round {number}: {self.seconds:.0f} s, {grants} grants, '
                f'{sum(self.faults.values())} faults, {sum(self.killed.values())} killed, '
                f'{self.records} records')

    def kinds(self):
        return sorted({kind for _, kind in self.faults})

    def text(self):
        names = [*self.backends, 'all']

        def row(title, values):
            return f'{title:34}' + ''.join(f'{value:>14}' for value in values)
        rows = [row(f'in {self.seconds:.0f} s (whole rounds)', names)]
        for title, key in ROWS:
            values = [self.sums[name][key] for name in self.backends]
            rows.append(row(title, [*values, sum(values)]))
        for title, key in LONGEST:
            values = [self.longest[name][key] for name in self.backends]
            rows.append(row(title, [*values, max(values)]))
        values = [self.orphans[name] for name in self.backends]
        rows.append(row('orphans after ttl + 1 s', [*values, sum(values)]))
        values = [self.verdict(name) for name in self.backends]
        rows.append(row('Porcupine', [*values, '']))
        values = [self.killed[name] for name in self.backends]
        rows.append(row('processes killed', [*values, sum(values)]))
        for kind in self.kinds():
            values = [self.faults[name, kind] for name in self.backends]
            rows.append(row(f'  fault: {kind}', [*values, sum(values) + self.faults['-', kind]]))
        values = [sum(n for (name, _), n in self.faults.items() if name == backend)
                  for backend in self.backends]
        rows.append(row('faults', [*values, sum(self.faults.values())]))
        rows.append(f'the resource itself: {self.resource["accepted"]} writes accepted, '
                    f'{self.resource["refused"]} visits refused, 0 updates lost')
        rows += [f'{count} x {text}' for text, count in self.complaints.most_common(10)]
        return '\n'.join(rows)

    def verdict(self, name):
        counts = self.verdicts[name]
        if not counts:
            return '-'
        return ' '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))
