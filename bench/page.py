"""Puts the tables of a run into a page of the documentation, between two marks."""
import report

BEGIN, END = '<!-- last run: written by bench/run --page -->\n', '<!-- end of last run -->'


def compared(results):
    yield '| row | cores | libdlock/s | other/s | ratio, median (min–max) | by CPU | bar | |'
    yield '|---|---|--:|--:|--:|--:|--:|---|'
    for result in results:
        if 'missing' in result:
            yield (f'| {result["name"]} | {result["place"]} | | | | | '
                   f'{result["bar"] or ""} | not measured: {result["missing"]} |')
            continue
        low, high = min(result['ratios']), max(result['ratios'])
        bar = '' if result['bar'] is None else f'{result["bar"]:g}'
        yield (f'| {result["name"]} | {result["place"]} | {result["ours"]:,.0f} | '
               f'{result["floor"]:,.0f} | {result["ratio"]:.2f} ({low:.2f}–{high:.2f}) | '
               f'{result["by_cpu"]:.2f} | {bar} | '
               f'{(report.verdict(result) + report.notes(result)).strip()} |')


def reported(others):
    yield '| | cores | |'
    yield '|---|---|---|'
    for result in others:
        yield f'| {result["name"]} | {result["place"]} | {report.other_line(result)} |'


def put(path, about, results, others):
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [f'{about["date"]}. {report.about_line(about)}.', '', *compared(results), '',
             *reported(others), '']
    path.write_text(before + BEGIN + '\n'.join(lines) + END + after)
