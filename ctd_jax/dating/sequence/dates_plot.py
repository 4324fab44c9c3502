"""Figure of a dated chronicle: position in the text against date."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.sequence.chronicle_dates import ChronicleDates
from ctd_jax.utils import plotting

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
_MAX_REIGN_LABELS = 28  # over the height of the figure; more would overlap


def plot_dates(dates: ChronicleDates, path: pathlib.Path) -> None:
  """Writes a PNG of position in the text against date.

  Args:
    dates: of the records.
    path: of the file; the probability of a date is its colour.
  """
  # Here and not above: the command imports this module for --help.
  import matplotlib.ticker

  calendar = dates.calendar
  calendar_years = (
    calendar.years + (calendar.months - 0.5 + 0.5 * calendar.is_leap) / 12
  )
  record_years = calendar_years[dates.months[:, 0]]
  figure = plotting.make_figure(8.5, 5)
  axes = figure.add_subplot()
  dots = axes.scatter(
    *(dates.lines, record_years),
    s=9,
    c=dates.probabilities[:, 0],
    cmap="viridis",
    vmin=0,
    vmax=1,
    linewidths=0,
  )
  axes.set_xlabel("line of the text")
  axes.set_ylabel("year")
  axes.set_title(f"Dates of {len(record_years)} records by cues and order")
  axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
  axes.yaxis.set_major_formatter(
    lambda year, _: reign_tables.format_common_era_year(round(year))
  )
  axes.grid(True, color="0.9")
  axes.set_axisbelow(True)
  axes.margins(x=0.02, y=0.04)
  axes.spines[["top", "right"]].set_visible(False)
  _label_reigns(axes, dates)
  bar = figure.colorbar(dots, ax=axes, pad=0.02)
  bar.set_label("probability of the month")
  plotting.write_figure(path, figure)


def _label_reigns(axes: matplotlib.axes.Axes, dates: ChronicleDates) -> None:
  """Writes the reigns beside the axis, as numbers where no font has them."""
  import matplotlib.font_manager

  installed_fonts = {
    font.name for font in matplotlib.font_manager.fontManager.ttflist
  }
  font = next((name for name in _CJK_FONTS if name in installed_fonts), None)
  calendar = dates.calendar
  bottom, top = axes.get_ylim()
  ticks, labels = [], []
  for reign_index in dict.fromkeys(
    calendar.find_reign(month, dates.printed_reigns)
    for month in np.unique(dates.months[:, 0])
  ):
    reign = calendar.timeline.reigns[reign_index]
    # Eras of a year or two would be written over one another.
    if bottom <= reign.accession <= top and (
      not ticks
      or reign.accession - ticks[-1] >= (top - bottom) / _MAX_REIGN_LABELS
    ):
      ticks.append(reign.accession)
      name = reign.state + reign.name
      labels.append(name if font else f"{reign_index + 1}")
  side = axes.secondary_yaxis("right")
  if not font:
    side.set_ylabel("reign, by its row in the table")
  side.set_yticks(ticks, labels, fontsize=8, family=font)
  side.spines["right"].set_color("0.7")
