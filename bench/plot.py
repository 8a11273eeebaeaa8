"""Draws the ratios as SVG: a dot for each pair of runs, a stroke at the median, a mark at a bar.

Not by matplotlib: a test compares the picture with its table byte for byte, and matplotlib's SVG
changes with its release and with the fonts that are there.
"""
import math
from xml.sax.saxutils import escape

from report import verdict

WIDTH, LEFT, RIGHT, TOP, STEP = 900, 330, 110, 64, 30
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
COLOURS = {'ok': '#1a7f37', 'MISSED': '#cf222e', '': '#57606a'}


class Scale:
    """Ratios on a logarithmic axis: half as fast is as far from 1 as twice as fast."""

    def __init__(self, values):
        self.low = max(t for t in TICKS[:-1] if t <= max(min(values), TICKS[0]))
        self.high = min(t for t in TICKS if t > self.low and t >= min(max(values), TICKS[-1]))

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def text(x, y, words, more=''):
    return f'<text x="{x}" y="{y}" {more}>{escape(words)}</text>'


def line(x, y, to_x, to_y, more):
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" {more}/>'


def axis(scale, bottom):
    for tick in TICKS:
        if scale.low <= tick <= scale.high:
            colour = '#24292f' if tick == 1 else '#d0d7de'
            yield line(scale(tick), TOP - 8, scale(tick), bottom, f'stroke="{colour}"')
            yield text(scale(tick), bottom + 16, f'{tick:g}', 'text-anchor="middle"')


def draw_row(result, scale, y):
    colour = COLOURS[verdict(result)]
    label = ', '.join(filter(None, (result['name'], result['place'])))
    yield text(LEFT - 12, y + 4, label, 'text-anchor="end"')
    low, high = scale(min(result['ratios'])), scale(max(result['ratios']))
    yield line(low, y, high, y, f'stroke="{colour}" stroke-opacity="0.4" stroke-width="3"')
    for ratio in result['ratios']:
        yield f'<circle cx="{scale(ratio)}" cy="{y}" r="3" fill="{colour}" fill-opacity="0.5"/>'
    median = scale(result['ratio'])
    yield line(median, y - 9, median, y + 9, f'stroke="{colour}" stroke-width="3"')
    if result['bar'] is not None:
        bar = scale(result['bar'])
        yield f'<path d="M{bar} {y - 4}l-5 -7h10z" fill="#0969da"/>'
    words = f'{result["ratio"]:.2f}' + (f' of {result["bar"]:g}' if result['bar'] else '')
    yield text(WIDTH - RIGHT + 14, y + 4, words, f'fill="{colour}"')


def draw(results, about):
    """Those of a run."""
    return picture([result for result in results if 'missing' not in result],
                   'libdlock ÷ the floor under it, or ÷ another library; higher is better',
                   f'{about["date"]}, {about["cores"]} cores, {about["server"]}; '
                   f'{about["pairs"]} interleaved pairs of {about["secs"]:g} s; '
                   'stroke: median, triangle: bar')


def picture(results, title, below):
    bottom = TOP + STEP * len(results)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 30}" '
           'font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>',
           text(12, 24, title, 'font-size="16"'), text(12, 44, below, 'fill="#57606a"')]
    if results:
        values = [ratio for result in results for ratio in (*result['ratios'], result['bar'] or 1)]
        scale = Scale(values)
        out += axis(scale, bottom)
        for number, result in enumerate(results):
            out += draw_row(result, scale, TOP + STEP * number + STEP // 2)
    return '\n'.join([*out, '</svg>', ''])
