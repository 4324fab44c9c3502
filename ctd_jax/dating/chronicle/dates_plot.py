"""Figure of a dated chronicle: position in the text against date.

Axes: K months, R rows.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle import western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.utils import output

if TYPE_CHECKING:
  import matplotlib.axes

# Fonts with Chinese characters, the common ones of Linux, macOS and Windows.
_CJK_FONTS = (
  "Noto Sans CJK TC",
  "Noto Sans CJK SC",
  "Noto Sans CJK JP",
  "Noto Serif CJK TC",
  "Noto Serif CJK SC",
  "Source Han Sans TC",
  "WenQuanYi Micro Hei",
  "WenQuanYi Zen Hei",
  "AR PL UMing TW",
  "PingFang TC",
  "Heiti TC",
  "Microsoft JhengHei",
  "SimHei",
)
_YEAR_ZERO = 1721060  # Julian day number of 1 January, Gregorian calendar
_DAYS_PER_YEAR = 365.2425
_MARGIN = 0.04  # above and below the dates, of their height
_FEW_DOTS = 200  # may be larger than many
_FEW_DOTS_SIZE, _DOT_SIZE = 24, 9
_MAX_YEAR_TICKS = 9
_MAX_REIGN_LABELS = 28  # over the height of the figure; more would overlap


def plot_dates(dates: ChronicleDates, path: pathlib.Path) -> None:
  """Writes a PNG of position in the text against date, coloured by probability.

  Grey lines go from the first to the last credible month. The title counts the
  sections outside the calendar.
  """
  # Here and not above: the command imports this module for --help.
  import matplotlib.colors

  rows = np.flatnonzero(dates.months[:, 0] < len(dates.calendar))
  places = [dates.place_of(row) for row in rows.tolist()]
  has_one_file = len({place.file for place in places}) <= 1
  figure = output.make_figure(8.5, 5)
  axes = figure.add_subplot()
  positions = [place.line for place in places] if has_one_file else rows + 1
  month_dates = _find_month_dates(dates.calendar)
  axes.vlines(
    positions,
    *_bound_credible_dates(dates, rows, month_dates),
    color="0.8",
    linewidth=0.8,
  )
  # The lines of doubtful sections may be long; dates alone set the height.
  chosen_dates = month_dates[dates.months[rows, 0]]
  if len(rows):
    margin = max(np.ptp(chosen_dates) * _MARGIN, 0.5)
    axes.set_ylim(chosen_dates.min() - margin, chosen_dates.max() + margin)
  dots = axes.scatter(
    positions,
    chosen_dates,
    s=_FEW_DOTS_SIZE if len(rows) <= _FEW_DOTS else _DOT_SIZE,
    c=dates.probabilities[rows, 0],
    cmap="viridis",
    norm=matplotlib.colors.Normalize(0, 1),
    linewidths=0,
    zorder=3,
  )
  axes.set_xlabel("line of the text" if has_one_file else "section")
  axes.set_ylabel("year")
  num_outside = len(dates) - len(rows)
  outside = f"; {num_outside:,} outside of the calendar" if num_outside else ""
  axes.set_title(f"Dates of {len(rows):,} sections by cues and order{outside}")
  axes.set_yticks(find_year_ticks(*axes.get_ylim()))
  axes.yaxis.set_major_formatter(
    lambda year, _: reigns.format_common_era_year(round(year))
  )
  axes.grid(True, color="0.9")
  axes.set_axisbelow(True)
  axes.margins(x=0.02)
  axes.spines[["top", "right"]].set_visible(False)
  if not western.is_western(dates.calendar):
    _label_reigns(axes, dates)
  bar = figure.colorbar(dots, ax=axes, pad=0.02)
  bar.set_label("probability of the month (grey: 90 %)")
  output.write_figure(path, figure)


def find_year_ticks(bottom: float, top: float) -> list[int]:
  """Returns astronomical years that are round as written: 100 BCE, 1 CE."""
  import matplotlib.ticker

  locator = matplotlib.ticker.MaxNLocator(
    _MAX_YEAR_TICKS, steps=[1, 2, 5, 10], integer=True
  )
  ticks = {
    # -700 is to be 700 BCE, which is -699.
    year + 1 if year <= 0 else year
    for year in map(round, locator.tick_values(bottom, top))
  }
  return sorted(year for year in ticks if bottom <= year <= top)


def _find_month_dates(calendar: Calendar) -> Float[np.ndarray, " K"]:
  """Returns the middle of every month as an astronomical year."""
  if calendar.day_spans is None:
    return calendar.years + (calendar.months - 0.5) / MONTHS_PER_YEAR
  first, length = calendar.day_spans.T
  return (first + length / 2 - _YEAR_ZERO) / _DAYS_PER_YEAR


def _bound_credible_dates(
  dates: ChronicleDates,
  rows: Int[np.ndarray, " R"],
  month_dates: Float[np.ndarray, " K"],
) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
  """Returns the first and last credible month of rows in the calendar."""
  bounds = []
  for row in rows.tolist():
    months = dates.credible.months_of(row)
    months = months[months < len(month_dates)]
    # What is fixed has one month, whatever was credible.
    ends = months[[0, -1]] if len(months) else dates.months[[row, row], [0, 0]]
    bounds.append(month_dates[ends])
  first, last = np.array(bounds).reshape(-1, 2).T
  return first, last


def _label_reigns(axes: matplotlib.axes.Axes, dates: ChronicleDates) -> None:
  """Writes the reigns beside the axis, if an installed font has them."""
  import matplotlib.font_manager

  installed_fonts = {
    font.name for font in matplotlib.font_manager.fontManager.ttflist
  }
  font = next((name for name in _CJK_FONTS if name in installed_fonts), None)
  if not font:
    axes.set_title(
      "names of reigns need a font with Chinese characters",
      loc="right",
      fontsize=6,
      color="0.5",
      y=-0.14,
    )
    return
  calendar = dates.calendar
  bottom, top = axes.get_ylim()
  ticks, labels = [], []
  for reign_index in dict.fromkeys(
    calendar.find_reign(month, dates.printed_reigns)
    for month in np.unique(dates.months[:, 0])
    if not dates.is_outside(month)
  ):
    reign = calendar.timeline.reigns[reign_index]
    # One that began before the figure is at its foot.
    place = max(bottom, reign.accession)
    if place == bottom == max(ticks, default=top):
      labels[-1] = reign.state + reign.name
    # Eras of a year or two would be written over one another.
    elif place <= top and (
      not ticks or place - ticks[-1] >= (top - bottom) / _MAX_REIGN_LABELS
    ):
      ticks.append(place)
      labels.append(reign.state + reign.name)
  side = axes.secondary_yaxis("right")
  side.set_yticks(ticks, labels, fontsize=8, family=font)
  side.spines["right"].set_color("0.7")
