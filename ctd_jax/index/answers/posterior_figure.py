"""Figure of a posterior: probability of years as an inline SVG.

Bars by year where there are few, by stretches of years where there are many.
Colours are those of the text around it, so that it is read in light and dark.

Axes: Y years.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import reign_tables

WIDTH, HEIGHT = 640, 150
_LEFT, _BOTTOM, _TOP = 42, 22, 8
_MAX_BARS = 300
_SHARE = 0.999  # of the probability that is drawn


def draw_posterior(curve: Sequence[tuple[int, float]]) -> str:
  """Returns an SVG of the years that hold nearly all of the probability.

  Args:
    curve: (astronomical year, probability), ascending.
  """
  years, chances = _find_drawn(curve)
  step = -(-len(years) // _MAX_BARS)
  starts = np.arange(0, len(years), step)
  heights = np.add.reduceat(chances, starts)
  top = float(heights.max())
  width = (WIDTH - _LEFT) / len(starts)
  floor = HEIGHT - _BOTTOM
  parts = []
  for number, (start, chance) in enumerate(zip(starts, heights, strict=True)):
    height = (floor - _TOP) * float(chance) / top if top else 0.0
    title = html.escape(
      f"{_name_years(years, start, step)}: {float(chance):.3f}"
    )
    parts.append(
      f'<rect x="{_LEFT + number * width:.1f}" y="{floor - height:.1f}" '
      f'width="{max(width * 0.85, 0.8):.1f}" height="{height:.1f}">'
      f"<title>{title}</title></rect>"
    )
  label = html.escape(
    f"Probability of years from {_format_year(years[0])} to "
    f"{_format_year(years[-1])}"
  )
  return (
    f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    f'<g class="bars">{"".join(parts)}</g>'
    f'<line x1="{_LEFT}" x2="{WIDTH}" y1="{floor}" y2="{floor}"/>'
    f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{top:.2g}</text>'
    f'<text x="{_LEFT - 4}" y="{floor}" text-anchor="end">0</text>'
    f"{_label_years(years, starts, width)}</svg>"
  )


def _find_drawn(
  curve: Sequence[tuple[int, float]],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns years and probabilities, without those at the ends."""
  years = np.array([year for year, _ in curve])
  chances = np.array([chance for _, chance in curve])
  total = chances.sum()
  if total <= 0:
    return years, chances
  sums = np.cumsum(chances) / total
  first = int(np.searchsorted(sums, (1 - _SHARE) / 2))
  last = int(np.searchsorted(sums, (1 + _SHARE) / 2))
  # A single year is shown among its neighbours.
  first, last = max(first - 3, 0), min(last + 3, len(years) - 1)
  return years[first : last + 1], chances[first : last + 1]


def _label_years(years: np.ndarray, starts: np.ndarray, width: float) -> str:
  num_labels = min(6, len(starts))
  bars = np.unique(np.linspace(0, len(starts) - 1, num_labels).round())
  labels = []
  for bar in bars.astype(int).tolist():
    anchor = "start" if bar == 0 else "middle"
    anchor = "end" if bar == len(starts) - 1 and bar else anchor
    x = _LEFT + (bar + {"start": 0, "middle": 0.5, "end": 1}[anchor]) * width
    labels.append(
      f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
      f"{_format_year(years[starts[bar]])}</text>"
    )
  return "".join(labels)


def _name_years(years: np.ndarray, start: int, step: int) -> str:
  last = min(start + step, len(years)) - 1
  names = dict.fromkeys((_format_year(years[start]), _format_year(years[last])))
  return " – ".join(names)


def _format_year(year: int | np.integer) -> str:
  return reign_tables.format_common_era_year(int(year))
