"""Prints the tables."""

FORMAT = '{:<24} {:<7} {:>12} {:>12}   {:<18} {:>6} {:>5}  {}'


def about_line(about):
    return (f'{about["processor"]}, {about["cores"]} cores, Linux {about["kernel"]}, '
            f'{about["compiler"]}, {about["server"]}; {about["pairs"]} interleaved pairs of runs '
            f'of {about["secs"]:g} s; load of the machine before: {about["load"]:.1f}')


def opening(about):
    print(about_line(about))
    if about['load'] > 0.5:
        print('Others use this machine: expect noise.')
    print('by CPU: the same ratio made of processor time (server included) instead of rates.')
    print()


def head():
    print(FORMAT.format('row', 'cores', 'libdlock/s', 'floor/s', 'ratio (min-max)', 'by CPU',
                        'bar', ''))


def verdict(result):
    if result['bar'] is None:
        return ''
    return 'ok' if result['ratio'] >= result['bar'] else 'MISSED'


def notes(result):
    """What the ratio alone would hide."""
    runs = result['runs']['ours']
    if result['place'] != 'cross':
        return ''
    share = sum(run['crossings'] for run in runs) / max(1, sum(run['changes'] for run in runs))
    return f' ({100 * share:.0f} % changed the core)'


def row(result):
    low, high = min(result['ratios']), max(result['ratios'])
    print(FORMAT.format(
        result['name'], result['place'], f'{result["ours"]:,.0f}', f'{result["floor"]:,.0f}',
        f'{result["ratio"]:.2f} ({low:.2f}-{high:.2f})', f'{result["by_cpu"]:.2f}',
        '' if result['bar'] is None else f'{result["bar"]:g}',
        verdict(result) + notes(result)), flush=True)


def failed(which, failure):
    print(FORMAT.format(which.name, which.place, '', '', '', '', '', f'FAILED: {failure}'),
          flush=True)


def pair_line(run):
    text = f'{run["rate"]:,.0f}/s, p50 {run["p50_us"]:g} us, p99 {run["p99_us"]:g} us'
    if run.get('bytes_sent') or run.get('bytes_received'):
        text += (f'; a pair: {run["commands"]:g} commands, {run["bytes_sent"]:.0f} bytes sent, '
                 f'{run["bytes_received"]:.0f} received')
    return text


def contention_line(run):
    return (f'{run["rate"]:,.0f}/s, {run["changes_rate"]:,.0f} changes of owner/s, '
            f'wait p50 {run["p50_us"] / 1000:.2f} ms, p99 {run["p99_us"] / 1000:.2f} ms; '
            f'by one thread {run["least"]:,} to {run["most"]:,}; overlaps {run["overlaps"]}')


def order_line(run):
    return (f'{run["ordered"]:,} of {run["grants"]:,} grants seen in order, '
            f'{run["overtakings"]} overtakings, {run["overlaps"]} overlaps, '
            f'{run["stale_tokens"]} tokens out of order')


def other_line(result):
    lines = {'pairs': pair_line, 'one name': contention_line, 'FIFO': order_line}
    return lines[result['name'].partition(':')[0]](result['run']).strip()


def others(results):
    print()
    for result in results:
        print(f'{result["name"]:<38} {result["place"]:<7} {other_line(result)}')


def closing(results, missed, failures, target):
    print()
    barred = [result for result in results if result['bar'] is not None]
    print(f'{len(barred) - len(missed)} of {len(barred)} bars reached; '
          f'{target}/results.json, {target}/ratios.svg')
    for failure in failures:
        print(f'FAILED: {failure}')
