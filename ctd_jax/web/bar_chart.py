"""Bar chart as an SVG that is read without a script.

Bars above the line are of one scale, bars below it of another. A bar may be a
link. The colours are those of the style sheet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import markupsafe
from rich import cells

WIDTH = 720
_LEFT, _RIGHT = 40, 4
_LABEL_HEIGHT = 20
_MAX_LABELS = 6
# Of a column of a label as it is on narrow screens, and between two labels.
_COLUMN_WIDTH, _LABEL_GAP = 9.5, 18


@dataclasses.dataclass(frozen=True)
class ChartBar:
  """A bar.

  Attributes:
    title: what it is, shown when it is pointed at.
    label: short, for the axis.
    above: value above the line.
    below: value below it.
    href: address that it leads to; "" for none.
    css_class: of its style; "" for none.
  """

  title: str
  label: str
  above: float
  below: float = 0.0
  href: str = ""
  css_class: str = ""


def draw_bars(
  bars: Sequence[ChartBar], label: str, height: int = 150, depth: int = 0
) -> markupsafe.Markup:
  """Returns a chart as SVG.

  Args:
    bars: from left to right, one at least.
    label: of the whole, for readers of the screen.
    height: of the part above the line.
    depth: of the part below it.
  """
  escape = markupsafe.escape
  width = (WIDTH - _LEFT - _RIGHT) / len(bars)
  top = max(bar.above for bar in bars) or 1.0
  bottom = max(bar.below for bar in bars) or 1.0
  line = height + 8
  labels_at = line + depth
  scale = height / top, depth / bottom
  parts = [
    _draw_bar(bar, _LEFT + number * width, width, line, *scale)
    for number, bar in enumerate(bars)
  ]
  total = labels_at + _LABEL_HEIGHT
  scales = [(top, 16)] if any(bar.above for bar in bars) else []
  if depth:
    scales.append((bottom, labels_at - 2))
  return markupsafe.Markup(
    f'<svg class="chart" viewBox="0 0 {WIDTH} {total}" role="group" '
    f'aria-label="{escape(label)}">{"".join(parts)}'
    f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{line}" y2="{line}"/>'
    + "".join(
      f'<text x="{_LEFT - 4}" y="{y}" text-anchor="end">{_format(value)}</text>'
      for value, y in scales
    )
    + _draw_labels(bars, width, total - 5)
    + "</svg>"
  )


def _format(value: float) -> str:
  if value >= 100:
    return f"{value:,.0f}"
  return f"{value:.3g}".replace("0.", ".", 1) if value < 1 else f"{value:.3g}"


def _draw_bar(
  bar: ChartBar,
  x: float,
  width: float,
  line: float,
  scale_above: float,
  scale_below: float,
) -> str:
  bar_width = max(width * 0.86, 0.8)
  above, below = bar.above * scale_above, bar.below * scale_below
  shapes = f"<title>{markupsafe.escape(bar.title)}</title>"
  # What is pointed at is the whole column; a low bar could not be hit.
  shapes += (
    f'<rect class="column" x="{x:.2f}" y="0" width="{width:.2f}" '
    f'height="{line + max(below, 0):.1f}"/>'
  )
  if above > 0:
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
  css_class = f' class="{bar.css_class}"' if bar.css_class else ""
  if not bar.href:
    return f"<g{css_class}>{shapes}</g>"
  # The table beside a chart has the same links, by keyboard.
  return (
    f'<a{css_class} href="{markupsafe.escape(bar.href)}" tabindex="-1" '
    f'aria-label="{markupsafe.escape(bar.title)}">{shapes}</a>'
  )


def _draw_labels(bars: Sequence[ChartBar], width: float, y: float) -> str:
  widest = max(cells.cell_len(bar.label) for bar in bars)
  num_fitting = int(WIDTH / (widest * _COLUMN_WIDTH + _LABEL_GAP))
  num_labels = max(min(_MAX_LABELS, len(bars), num_fitting), 1)
  # A single label stands below the middle.
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
