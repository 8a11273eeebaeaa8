"""Prints the tables."""

FORMAT = '{:<34} {:<7} {:>12} {:>12}   {:<18} {:>6} {:>5}  {}'


def about_line(about):
    libraries = ''.join(f', {name} {version}' for name, version in about['libraries'].items())
    return (f'{about["processor"]}, {about["cores"]} cores, Linux {about["kernel"]}, '
            f'{about["compiler"]}, {about["server"]}{libraries}; {about["pairs"]} interleaved '
            f'pairs of runs of {about["secs"]:g} s; load of the machine before: '
            f'{about["load"]:.1f}')


def opening(about):
    print(about_line(about))
    if about['load'] > 0.5:
        print('Others use this machine: expect noise.')
    print('by CPU: the same ratio made of processor time (server included) instead of rates.')
    print()


def head():
    print(FORMAT.format('row', 'cores', 'libdlock/s', 'other/s', 'ratio (min-max)', 'by CPU',
                        'bar', ''))


def verdict(result):
    if result['bar'] is None:
        return ''
    return 'ok' if result['ratio'] >= result['bar'] else 'MISSED'


def check_text(check):
    text = f'{check["what"]} {check["value"]:.3g}'
    if check['most'] is None:
        return text
    return f'{text} of at most {check["most"]:g} {"ok" if check["ok"] else "MISSED"}'


def notes(result):
    """What the ratio alone would hide."""
    words = [check_text(check) for check in result['checks']]
    if result['place'] == 'cross':
        runs = result['runs']['ours']
        share = (sum(run['crossings'] for run in runs)
                 / max(1, sum(run['changes'] for run in runs)))
        words.append(f'{100 * share:.0f} % changed the core')
    return f' ({"; ".join(words)})' if words else ''


def row(result):
    if 'missing' in result:
        print(FORMAT.format(result['name'], result['place'], '', '', '', '', '',
                            f'not measured: {result["missing"]}'), flush=True)
        return
    low, high = min(result['ratios']), max(result['ratios'])
    print(FORMAT.format(
        result['name'], result['place'], f'{result["ours"]:,.0f}', f'{result["floor"]:,.0f}',
        f'{result["ratio"]:.2f} ({low:.2f}-{high:.2f})', f'{result["by_cpu"]:.2f}',
        '' if result['bar'] is None else f'{result["bar"]:g}',
        verdict(result) + notes(result)), flush=True)


def pair_line(run):
    text = f'{run["rate"]:,.0f}/s, p50 {run["p50_us"]:g} us, p99 {run["p99_us"]:g} us'
    if run.get('bytes_sent') or run.get('bytes_received'):
        text += (f'; a pair: {run["commands"]:g} commands, {run["bytes_sent"]:.0f} bytes sent, '
                 f'{run["bytes_received"]:.0f} received')
    return text


def ms(us):
    return f'{us / 1000:,.2f} ms' if us < 100000 else f'{us / 1000:,.0f} ms'


def contention_line(run):
    return (f'{run["grants_rate"]:,.0f}/s, {run["rate"]:,.0f} changes of owner/s with '
            f'{run["commands_each"]:.1f} commands each; wait p50 {ms(run["p50_us"])}, p99 '
            f'{ms(run["p99_us"])}, longest {ms(run["max_us"])}; by one thread {run["least"]:,} '
            f'to {run["most"]:,}; overlaps {run["overlaps"]}')


def order_line(run):
    return (f'{run["ordered"]:,} of {run["grants"]:,} grants seen in order, '
            f'{run["overtakings"]} overtakings, {run["overlaps"]} overlaps, '
            f'{run["stale_tokens"]} tokens out of order')


def killed_line(run):
    return (f'{run["rounds"]} times: the next one has the lock after {run["median_ms"]:.1f} ms '
            f'(median), {run["most_ms"]:.1f} ms at most')


def start_line(run):
    return f'{run["ours"]:.2f} ms with a client of mem:, {run["empty"]:.2f} without libdlock'


def held_line(run):
    by = f' by {run["scripts_rate"]:,.0f} scripts/s' if run['scripts_rate'] else ''
    return (f'{run["held"]:,} locks: client {run["cpu_percent"]:.2f} % of a core, '
            f'{run["rss_mb"]:.1f} MB; {run["commands_rate"]:,.0f} commands/s{by}; '
            f'{run["lost"]:,} lost')


def side_line(who, run):
    return (f'{who} {run["grants_rate"]:,.0f} grants/s, p99 wait {ms(run["p99_us"])}, longest '
            f'{ms(run["max_us"])}')


def beside_line(run):
    told = f'; messages: {run["told"]:,}' if 'told' in run else ''
    return (f'{side_line("ours", run["ours"])}; {side_line("theirs", run["theirs"])}{told}; '
            f'overlaps {run["overlaps"]}')


def signal_line(run):
    return (f'{run["signals_rate"]:,.0f} times/s woken with the lock, '
            f'{run["hand_overs_rate"]:,.0f} hand-overs/s; by CPU {run["by_cpu"]:.2f} of two')


def asked_line(run):
    return f'kept idle {run["kept"]:,.1f} us, released just then {run["held"]:,.1f} us'


def wire_line(run):
    return f'{run["rate"]:,.0f} pairs/s by way of a relay'


def far_line(run):
    return f'{run["rate"]:,.0f} pairs/s over links of 5 ms each way'


def python_line(run):
    return f'{run["C"]:,.0f} pairs/s in C, {run["Python"]:,.0f} in Python'


def calls_line(run):
    return (f'{run["version_ns"]:.0f} ns for a text, {run["remaining_ns"]:.0f} for Remaining, '
            f'{run["check_ns"]:.0f} for Check; {run["mem_pair_ns"]:,.0f} for a pair on mem:')


LINES = {'Go': calls_line, 'pairs': pair_line, 'one name': contention_line,
         'holds of 5 ms': contention_line, 'FIFO': order_line,
         'killed in mid-hand-over': killed_line, 'held': held_line, 'start': start_line,
         'beside Redisson': beside_line, 'from Python': python_line,
         'asked for': asked_line,
         'signal': signal_line, 'wire': wire_line, 'from 5 ms away': far_line}


def other_line(result):
    if 'missing' in result:
        return f'not measured: {result["missing"]}'
    text = LINES[result['name'].partition(':')[0]](result['run']).strip()
    return '; '.join([text, *map(check_text, result['checks'])])


def other(result):
    print(f'{result["name"]:<40} {result["place"]:<7} {other_line(result)}', flush=True)


def bars(results, others):
    """(reached, name) of each bar there is."""
    for result in results:
        if result['bar'] is not None:
            reached = 'missing' not in result and verdict(result) == 'ok'
            yield reached, f'{result["name"]}, {result["place"]}'
    for result in [*results, *others]:
        for check in result.get('checks', ()):
            if check['most'] is not None:
                yield check['ok'], f'{result["name"]}, {result["place"]}: {check["what"]}'


def closing(reached, missed, failures, restarts, target):
    print()
    for restart in restarts:
        print(f'started anew: {restart}')
    print(f'{reached} of {reached + len(missed)} bars reached; '
          f'{target}/results.json, {target}/ratios.svg')
    for name in missed:
        print(f'MISSED: {name}')
    for failure in failures:
        print(f'FAILED: {failure}')
