"""The timeline of a search: bars or points by time, above a band of reigns.

The page has it drawn, and its script asks for other stretches, drawn alike.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int
from markupsafe import Markup

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import western
from ctd_jax.index import charts
from ctd_jax.index.charts import ChartBand, ChartBar
from ctd_jax.web import queries, rendering
from ctd_jax.web.queries import PageQuery, TimelineBars
from ctd_jax.web.served_index import ServedIndex

_MAX_BANDS = 40  # reigns that are told apart; of more, their states


def link_times(
  query: PageQuery, links: rendering.PageLinks
) -> Callable[[int, int], str]:
  """Returns what makes the address of a query, narrowed to some months."""
  # Encoded once: only the ends differ, and there are hundreds of bars.
  start = links("/", query.replace(first="", last="").encode())
  mark = "&" if "?" in start else "?"
  return lambda first, last: f"{start}{mark}from=%40{first}&to=%40{last}"


def link_bars(
  times: TimelineBars, query: PageQuery, links: rendering.PageLinks
) -> list[str]:
  """Returns the address of each bar: the query, narrowed to its time."""
  link = link_times(query, links)
  return [link(bar.first, bar.last) for bar in times.bars]


def draw_timeline(
  served: ServedIndex,
  times: TimelineBars,
  query: PageQuery,
  links: rendering.PageLinks,
  language: str,
  total_width: int = charts.WIDE,
) -> Markup:
  """Returns a timeline as SVG, each bar and reign a link to its time."""
  has_matches = any(bar.matches for bar in times.bars)
  code = "timeline.hits" if has_matches else "timeline.all"
  bars = []
  for bar, address in zip(
    times.bars, link_bars(times, query, links), strict=True
  ):
    years = "" if bar.name == bar.common_era else f" ({bar.common_era})"
    bars.append(
      ChartBar(
        title=rendering.translate(
          language,
          code,
          time=bar.name + years,
          matches=charts.format_value(bar.matches),
          records=charts.format_value(bar.records),
        ),
        label=_make_label(served, times.unit, bar, language),
        above=bar.matches if has_matches else bar.records,
        below=bar.records if has_matches else 0.0,
        href=address,
        css_class="asked" if bar.is_asked else "",
      )
    )
  return charts.draw_bars(
    bars,
    rendering.translate(language, "timeline.title"),
    height=96,
    depth=40 if has_matches else 0,
    bands=_find_bands(served, times, link_times(query, links), language),
    total_width=total_width,
  )


def _make_label(
  served: ServedIndex, unit: str, bar: queries.Bar, language: str
) -> str:
  """Returns the label of a bar; the band below it names the reign."""
  if unit != queries.MONTH or western.is_western(served.index.calendar):
    years = bar.common_era.partition(" – ")[0]
    return reigns.write_years(language, years)
  reign = int(served.remember(find_reigns, "")[bar.first])
  return bar.name.removeprefix(name_reign(served, reign))


def find_reigns(served: ServedIndex, _: str) -> Int[np.ndarray, " K"]:
  """Returns the row of the reign by which each month is named."""
  calendar, printed = served.index.calendar, served.index.printed_reigns
  return np.array(
    [calendar.find_reign(month, printed) for month in range(len(calendar))]
  )


def name_reign(served: ServedIndex, row: int) -> str:
  """Returns a reign with its state, such as 魯隱公."""
  reign = served.index.calendar.timeline.reigns[row]
  return reign.state + reign.name


def _shorten(name: str, state: str) -> str:
  """Returns a reign without its state; a ruler as 隱 for 魯隱公."""
  return name.removeprefix(state).removesuffix("公") or name


def _find_bands(
  served: ServedIndex,
  times: TimelineBars,
  link: Callable[[int, int], str],
  language: str,
) -> list[ChartBand]:
  """Returns the reigns of a timeline, or their states if there are many."""
  if western.is_western(served.index.calendar):
    return []
  months = np.arange(times.first, times.last + 1)
  rows = served.remember(find_reigns, "")[months].tolist()
  states = [reign.state for reign in served.index.calendar.timeline.reigns]
  names = [name_reign(served, row) for row in rows]
  for is_state in (False, True):
    if is_state:
      names = [states[row] for row in rows]
    starts = [
      place
      for place in range(len(names))
      if not place or names[place] != names[place - 1]
    ]
    if len(starts) <= _MAX_BANDS:
      break
  else:
    return []
  bounds = [bar.first for bar in times.bars] + [times.last + 1]
  ends = [*starts[1:], len(names)]
  places = np.interp(
    times.first + np.array([starts, ends]), bounds, np.arange(len(bounds))
  )
  bands = []
  for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
    first, last = times.first + start, times.first + end - 1
    years = queries.format_years(served.years, first, last)
    bands.append(
      ChartBand(
        first=float(places[0, number]),
        end=float(places[1, number]),
        names=(names[start], _shorten(names[start], states[rows[start]])),
        title=reigns.write_years(language, f"{names[start]} ({years})"),
        href=link(first, last),
      )
    )
  return bands
