"""Themes of the Timeline Ito game, read from `facts/themes.tsv`."""

from __future__ import annotations

import functools

from ctd_jax_datasets.ctm import fact_tables, periods
from ctd_jax_datasets.ctm.game_schema import Theme

_THEME_COLUMNS = "theme low high position item measure unit source checked"


@functools.cache
def load_themes() -> tuple[Theme, ...]:
  """Returns the eight themes of the game.

  Raises:
    ValueError: naming the theme without ten items of rising measure.
  """
  rows = fact_tables.read_table(
    fact_tables.table_path("themes"),
    _THEME_COLUMNS.split(),
    integers=("position",),
  )
  by_theme: dict[str, list[dict[str, str]]] = {}
  for row in rows:
    by_theme.setdefault(row["theme"], []).append(row)
  themes = []
  for name, items in by_theme.items():
    # Item k stands for period k, so a tie would make a hint ambiguous.
    measures = tuple(float(row["measure"]) for row in items)
    is_rising = tuple(sorted(set(measures))) == measures
    if not is_rising or len(items) != len(periods.PERIODS):
      raise ValueError(
        f"{fact_tables.table_path('themes')}: {name}: needs "
        f"{len(periods.PERIODS)} items whose measures rise"
      )
    first_row = items[0]
    themes.append(
      Theme(
        name=name,
        low=first_row["low"],
        high=first_row["high"],
        items=tuple(row["item"] for row in items),
        measures=measures,
        unit=first_row["unit"],
        source=fact_tables.ITEM_SEPARATOR.join(
          dict.fromkeys(row["source"] for row in items)
        ),
      )
    )
  return tuple(themes)
