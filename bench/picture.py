#!/usr/bin/env python3
"""Draws the table of docs/explanation/performance.md beside it; --check: whether that was done."""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import plot

PAGE = Path(__file__).resolve().parent.parent / 'docs' / 'explanation' / 'performance.md'
ROW = re.compile(r'^\| (.*?) \| (.*?) \| ([\d.]+) \| (?:([\d.]+)–([\d.]+) )?\| (?:([\d.]+) )?\|$',
                 re.M)


def results(text):
    """The rows as bench/run has them."""
    for ours, other, ratio, low, high, bar in ROW.findall(text):
        ratio, bar = float(ratio), float(bar) if bar else None
        yield {'name': f'{ours} / {other}'.replace('`', ''), 'place': '', 'ratio': ratio,
               'bar': bar, 'ratios': [float(low or ratio), ratio, float(high or ratio)]}


def main():
    text = PAGE.read_text(encoding='utf-8')
    rows = list(results(text))
    if len(rows) != len(re.findall(r'^\| \S', text, re.M)) - 1:
        sys.exit('performance.md: a row of the table is not understood')
    picture = plot.picture(rows, 'libdlock ÷ a floor, or ÷ another library; higher is better',
                           'stroke: median, triangle: bar')
    svg = PAGE.with_suffix('.svg')
    if sys.argv[1:] == ['--check']:
        sys.exit(picture != svg.read_text(encoding='utf-8') and f'{svg.name}: run bench/picture.py')
    svg.write_text(picture, encoding='utf-8')


if __name__ == '__main__':
    main()
