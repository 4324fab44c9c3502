"""Charts as SVG without a script: bars, points and a band of reigns."""

import dataclasses
from collections.abc import Callable, Sequence

import markupsafe
from rich import cells

from ctd_jax.chronology import reigns

WIDE, NARROW = 720, 340  # units; about pixels where each is shown
_LEFT, _RIGHT = 34, 4
_LABEL_HEIGHT = 20
_BAND_HEIGHT = 20
_MAX_LABELS = 6
_COLUMN_WIDTH, _LABEL_GAP = 7.0, 14  # of the text of labels
_MAX_POINTS = 12  # hits that are drawn as points, where bars would look full
_MIN_POINT_BARS = 20  # places on the axis, for points
_RADIUS = 3.5
_MAX_YEAR_BARS = 160
_SHARE = 0.001  # of the probability that may be beyond the ends of a figure
_YEAR_MARGIN = 3  # years shown beyond it


@dataclasses.dataclass(frozen=True)
class ChartBar:
  """A bar of a chart."""

  title: str  # shown beside the pointer
  label: str  # on the axis
  above: float  # value above the line
  below: float = 0.0  # value below it
  href: str = ""  # link; "" for none
  css_class: str = ""  # "" for none


@dataclasses.dataclass(frozen=True)
class ChartBand:
  """A stretch of bars with a name, such as a reign."""

  first: int  # number of the first bar
  end: int  # number after the last bar
  names: tuple[str, ...]  # longest first, of which one may fit
  title: str  # shown beside the pointer
  href: str


def format_value(value: float) -> str:
  """Returns a number of records for the axis."""
  return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw_bars(
  bars: Sequence[ChartBar],
  label: str,
  height: int = 150,
  depth: int = 0,
  bands: Sequence[ChartBand] = (),
  total_width: int = WIDE,
  write: Callable[[float], str] = format_value,
) -> markupsafe.Markup:
  """Returns a bar chart as SVG; few hits are drawn as points.

  Args:
    bars: bars from left to right, at least one.
    label: label of the chart, for screen readers.
    height: height of the part above the line.
    depth: depth of the part below the line.
    bands: named stretches, drawn in a band below.
    total_width: width of the figure.
    write: makes the largest values into text.
  """
  escape = markupsafe.escape
  width = (total_width - _LEFT - _RIGHT) / len(bars)
  top = max(bar.above for bar in bars) or 1.0
  bottom = max(bar.below for bar in bars) or 1.0
  line = height + 8
  band_at = line + depth
  labels_at = band_at + (_BAND_HEIGHT if bands else 0)
  num_hits = sum(bar.above > 0 for bar in bars)
  is_few = num_hits <= _MAX_POINTS and len(bars) >= _MIN_POINT_BARS
  scale = height / top, depth / bottom
  parts = [
    _draw_bar(bar, _LEFT + number * width, width, line, *scale, is_few)
    for number, bar in enumerate(bars)
  ]
  parts += [_draw_band(band, width, band_at) for band in bands]
  total = labels_at + _LABEL_HEIGHT
  scales = [(top, 16)] if num_hits else []
  if depth:
    scales.append((bottom, band_at - 2))
  return markupsafe.Markup(
    f'<svg class="chart" viewBox="0 0 {total_width} {total}" role="group" '
    f'aria-label="{escape(label)}">{"".join(parts)}'
    f'<line x1="{_LEFT}" x2="{total_width - _RIGHT}" y1="{line}" y2="{line}"/>'
    + "".join(
      f'<text x="{_LEFT - 4}" y="{y}" text-anchor="end">{write(value)}</text>'
      for value, y in scales
    )
    + _draw_labels(bars, width, total_width, total - 5)
    + "</svg>"
  )


def _draw_bar(
  bar: ChartBar,
  x: float,
  width: float,
  line: float,
  scale_above: float,
  scale_below: float,
  is_point: bool,
) -> str:
  bar_width = max(width * 0.86, 0.8)
  above, below = bar.above * scale_above, bar.below * scale_below
  # The whole column reacts to the mouse; a low bar would be hard to hit.
  shapes = (
    f'<rect class="column" x="{x:.2f}" y="0" width="{width:.2f}" '
    f'height="{line + max(below, 0):.1f}"/>'
  )
  if above > 0 and is_point:
    shapes += (
      f'<circle class="above" cx="{x + width / 2:.2f}" '
      f'cy="{max(line - above, _RADIUS + 1):.1f}" r="{_RADIUS}"/>'
    )
  elif above > 0:
    above = max(above, 1)
    shapes += (
      f'<rect class="above" x="{x:.2f}" y="{line - above:.1f}" '
      f'width="{bar_width:.2f}" height="{above:.1f}"/>'
    )
  if below > 0:
    shapes += (
      f'<rect class="below" x="{x:.2f}" y="{line:.1f}" '
      f'width="{bar_width:.2f}" height="{max(below, 0.6):.1f}"/>'
    )
  return _link(shapes, bar.title, bar.href, bar.css_class)


def _draw_band(band: ChartBand, width: float, y: float) -> str:
  x, end = (_LEFT + number * width for number in (band.first, band.end))
  shapes = (
    f'<rect class="reign" x="{x:.2f}" y="{y + 3}" '
    f'width="{max(end - x - 1, 0.5):.2f}" height="{_BAND_HEIGHT - 4}"/>'
  )
  fitting = (
    name
    for name in band.names
    if cells.cell_len(name) * _COLUMN_WIDTH < end - x
  )
  if name := next(fitting, ""):
    shapes += (
      f'<text lang="lzh" x="{(x + end) / 2:.1f}" y="{y + 15}" '
      f'text-anchor="middle">{markupsafe.escape(name)}</text>'
    )
  return _link(shapes, band.title, band.href)


def _link(shapes: str, title: str, href: str, css_class: str = "") -> str:
  """Returns shapes with a title, as a link if there is one."""
  title = markupsafe.escape(title)
  shapes = f"<title>{title}</title>{shapes}"
  css_class = f' class="{css_class}"' if css_class else ""
  if not href:
    return f"<g{css_class}>{shapes}</g>"
  # Not in the tab order: the table beside the chart has the same links.
  return (
    f'<a{css_class} href="{markupsafe.escape(href)}" tabindex="-1" '
    f'aria-label="{title}">{shapes}</a>'
  )


def _draw_labels(
  bars: Sequence[ChartBar], width: float, total_width: int, y: float
) -> str:
  widest = max(cells.cell_len(bar.label) for bar in bars)
  room = total_width - _LEFT - _RIGHT
  num_fitting = int(room / (widest * _COLUMN_WIDTH + _LABEL_GAP))
  num_labels = max(min(_MAX_LABELS, len(bars), num_fitting), 1)
  # A single label goes below the middle.
  first = (len(bars) - 1) / 2 if num_labels == 1 else 0.0
  step = (len(bars) - 1) / max(num_labels - 1, 1)
  labels = []
  for number in range(num_labels):
    bar = round(first + number * step)
    is_first = bar == 0 and len(bars) > 1
    is_last = bar == len(bars) - 1 and len(bars) > 1
    anchor = "start" if is_first else "end" if is_last else "middle"
    offset = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    labels.append(
      f'<text x="{_LEFT + (bar + offset) * width:.1f}" y="{y}" '
      f'text-anchor="{anchor}">{markupsafe.escape(bars[bar].label)}</text>'
    )
  return "".join(labels)


def draw_years(
  curve: Sequence[tuple[int, float]],
  label: str,
  write: Callable[[float], str],
) -> markupsafe.Markup:
  """Returns the years that hold nearly all of the probability as SVG.

  Args:
    curve: (astronomical year, probability), ascending.
    label: label of the chart, for screen readers.
    write: makes probabilities into text.
  """
  name = reigns.format_common_era_year
  first, last = _find_shown(curve)
  step = -(-(last - first) // _MAX_YEAR_BARS)
  bars = []
  for start in range(first, last, step):
    stretch = curve[start : min(start + step, last)]
    chance = sum(value for _, value in stretch)
    years = dict.fromkeys((name(stretch[0][0]), name(stretch[-1][0])))
    bars.append(
      ChartBar(
        title=f"{' – '.join(years)}: {write(chance)}",
        label=name(stretch[0][0]),
        above=chance,
        css_class="credible",
      )
    )
  return draw_bars(bars, label, height=120, write=write)


def _find_shown(curve: Sequence[tuple[int, float]]) -> tuple[int, int]:
  """Returns first and end of the years that hold nearly all probability."""
  total = sum(value for _, value in curve)
  first, end, low, high = 0, len(curve), 0.0, 0.0
  while first < end - 1 and low + curve[first][1] <= _SHARE * total:
    low += curve[first][1]
    first += 1
  while end > first + 1 and high + curve[end - 1][1] <= _SHARE * total:
    high += curve[end - 1][1]
    end -= 1
  return max(first - _YEAR_MARGIN, 0), min(end + _YEAR_MARGIN, len(curve))
