"""Makes the tables of calendars from an installed `sanmiao`.

    pip install --no-deps 'sanmiao==0.2.12'
    python -m ctd_jax_datasets.calendars.build_tables

Only the tables of that package are read, never its code. The rows of
`corrections.tsv` correct their errors, each with its reason.
"""

import bisect
import csv
import dataclasses
import functools
import importlib.metadata
import importlib.util
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import opencc
from absl import app, flags

from ctd_jax.chronology.calendar_tables import TABLE_COLUMNS
from ctd_jax.utils import files
from ctd_jax_datasets.calendars import lunations as lunations_lib

SANMIAO_VERSION = "0.2.12"
FOLDER = pathlib.Path(__file__).parent
VIETNAM_COLUMNS = (
  *("polity", "ruler", "name", "spellings"),
  *("first_year", "first", "last", "month_source"),
)
_COUNTRY_BY_STREAM = {**dict.fromkeys((1, 2, 3), "zh"), 4: "ja"} | (
  dict.fromkeys((5, 6, 7, 8), "ko")
)
# Polities that counted the years of rulers beside eras, or before there were
# any, of which the source has no row among the eras: 新羅.
_POLITIES_OF_REIGNS = {"136": "silla"}
# 開國 503 is the longest count; one further from 元年 is a typing error.
_MAX_YEARS = 510
# Number of a polity in the source: the stream of its own.
_STREAM_OF_POLITY = {"128": "southern_ming"}
# The short name of an emperor is the posthumous one, 武帝, up to the Sui, and
# the temple name, 太宗, from the Tang on (97 is the number of 唐).
_FIRST_TEMPLE_NAME_POLITY = 97
# What ends the title of a ruler.
_RANKS = "帝王公皇后祖宗"
# 明皇帝 of 石勒, whom the source calls 明帝 nowhere.
_LONG_TITLE = re.compile("[^皇]{1,2}皇帝")
# Not a name: 王 of 弓裔.
_TITLE_OF_ANY_KING = re.compile(".|大王")
# Not what a prince was called before he ruled: 豫章王蕭棟.
_TITLE_BEFORE_PERSON = re.compile("[^皇]{1,3}[帝宗祖主]|.{2}皇帝|帝.")

# What editions print for a character of an era. 曆 and 弘 were in the name of
# the emperor under whom the 四庫全書 was copied, 寧 and 淳 in those of later
# ones.
_EDITION_GLYPHS = (
  "寶寳",
  "曆歷",
  "熙熈煕",
  "啟啓",
  "祐佑",
  "弘宏",
  "寧甯",
  "淳湻",
  "證証",
  "熹憙",
  "太大",
  "大太",
)

_OUT = flags.DEFINE_string("out", "", "folder of the tables; the package's own")


def sanmiao_data_dir() -> pathlib.Path:
  """Returns the folder of the tables of the installed `sanmiao`.

  Raises:
    ModuleNotFoundError: if it is not installed.
    ValueError: if its version is another than `SANMIAO_VERSION`.
  """
  spec = importlib.util.find_spec("sanmiao")
  if spec is None or not spec.submodule_search_locations:
    raise ModuleNotFoundError(
      f"no sanmiao; pip install --no-deps 'sanmiao=={SANMIAO_VERSION}'"
    )
  version = importlib.metadata.version("sanmiao")
  if version != SANMIAO_VERSION:
    raise ValueError(
      f"sanmiao is {version}; corrections.tsv is of {SANMIAO_VERSION}"
    )
  return pathlib.Path(spec.submodule_search_locations[0]) / "data"


def read_corrections(
  path: pathlib.Path = FOLDER / "corrections.tsv",
) -> list[dict[str, str]]:
  """Returns the rows of the table of corrections."""
  rows = files.read_tsv_rows(
    path,
    ("table", "key", "column", "source", "value", "reason", "authority"),
  )
  for number, row in enumerate(rows, start=2):
    if not row["reason"] or not row["authority"]:
      raise ValueError(
        f"{path}, line {number}: should have a reason and an authority"
      )
  return rows


@dataclasses.dataclass
class _EraRow:
  """One era under one ruler while its rows are put together."""

  era: str
  polity: str
  ruler: str
  names: list[str]
  stream: str
  first_day: int
  last_day: int | None
  first_year: int


def build_tables(
  source: pathlib.Path, corrections: Sequence[Mapping[str, str]]
) -> dict[str, list[tuple]]:
  """Returns the rows of every table, in order of `TABLE_COLUMNS`.

  Raises:
    ValueError: for a correction that fits no row of the source.
  """
  streams = lunations_lib.assemble_streams(
    _read_csv(source / "lunar_table_dump.csv"), corrections
  )
  lunations_lib.extend_streams(streams)
  by_table: dict[str, dict[str, list[Mapping[str, str]]]] = {}
  for row in corrections:
    by_key = by_table.setdefault(row["table"], {})
    by_key.setdefault(row["key"], []).append(row)
  moved_days = lunations_lib.find_moved_days(corrections)
  era_rows = list(
    _read_era_rows(
      source / "era_table.csv", by_table.get("eras", {}), moved_days
    )
  )
  era_rows += _iter_reigns_without_era(source, era_rows, streams)
  vietnamese = list(_read_vietnam(streams["zhou_qing"]))
  eras = _merge_spellings([*era_rows, *vietnamese])
  polities = {era.polity for era in eras}
  rulers = {era.ruler for era in eras} - {""}
  tables = {
    "lunations": list(lunations_lib.format_year_rows(streams)),
    "polities": list(
      _iter_polity_rows(source, polities, by_table.get("polities", {}))
    ),
    "rulers": list(
      _iter_ruler_rows(
        source,
        rulers - {era.ruler for era in vietnamese},
        by_table.get("rulers", {}),
      )
    ),
    "eras": list(_iter_era_rows(eras, streams)),
    "early_states": list(
      _iter_early_states(source, streams, by_table.get("early_states", {}))
    ),
  }
  # A ruler of Vietnam is the polity and the name.
  tables["rulers"] += dict.fromkeys(
    (
      era.ruler,
      era.polity,
      name := era.ruler.removeprefix(era.polity),
      ",".join(sorted(_spell_names([name]) - {name})),
    )
    for era in vietnamese
  )
  for table, columns in TABLE_COLUMNS.items():
    if any(len(row) != len(columns) for row in tables[table]):
      raise ValueError(f"{table}: rows should have {len(columns)} columns")
  return tables


def write_tables(
  tables: Mapping[str, Iterable[tuple]], folder: pathlib.Path
) -> None:
  """Writes each table as TSV."""
  for name, rows in tables.items():
    lines = ["\t".join(TABLE_COLUMNS[name])]
    lines += ["\t".join(map(str, row)) for row in rows]
    with files.atomic_path(folder / f"{name}.tsv") as path:
      pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_csv(path: pathlib.Path) -> Iterator[dict[str, str]]:
  with path.open(encoding="utf-8", newline="") as file:
    yield from csv.DictReader(file)


def _read_era_rows(
  path: pathlib.Path,
  corrections: Mapping[str, list[Mapping[str, str]]],
  moved_days: Mapping[str, Mapping[int, int]],
) -> Iterator[_EraRow]:
  """Yields the eras of the source, corrected; a key is era and name."""
  unused = {key: list(rows) for key, rows in corrections.items()}
  for key in tuple(unused):
    if unused[key][0]["column"] == "added":
      # An era that the source lacks.
      era, *names = key.split()
      polity, ruler, stream, year, *days = unused.pop(key)[0]["value"].split()
      ruler = "" if ruler == "-" else ruler
      yield _EraRow(
        era, polity, ruler, names, stream, *map(int, days), int(year)
      )
  for row in _read_csv(path):
    key = " ".join(filter(None, (row["era_id"], row["era_name"])))
    dropped, corrected = False, set()
    names = [row["era_name"]] if row["era_name"] else []
    for correction in unused.pop(key, ()):
      column = correction["column"]
      corrected.add(column)
      if column == "dropped":
        dropped = True
      elif column == "spellings":
        names.append(correction["value"])
      elif column not in row or row[column] != correction["source"]:
        raise ValueError(
          f"correction of era {key}: {column} is {row.get(column)!r}"
        )
      else:
        row[column] = correction["value"]
        names = [row["era_name"]] if row["era_name"] else []
    if dropped:
      continue
    stream = _stream_of_era(row)
    moved = moved_days.get(stream, {})
    first_day = _day_of(row["era_start_jdn"])
    # The source gives the first day of what follows.
    next_day = _day_of(row["era_end_jdn"]) if row["era_end_jdn"] else None
    # A day that is corrected is right as it stands.
    if "era_start_jdn" not in corrected:
      first_day = moved.get(first_day, first_day)
    if "era_end_jdn" not in corrected:
      next_day = moved.get(next_day, next_day)
    yield _EraRow(
      row["era_id"],
      row["dyn_id"],
      str(int(float(row["ruler_id"]))),
      names,
      stream,
      first_day,
      None if next_day is None else next_day - 1,
      int(row["era_start_year"]),
    )
  if unused:
    raise ValueError(f"corrections of unknown eras: {sorted(unused)}")


def _iter_reigns_without_era(
  source: pathlib.Path,
  eras: Sequence[_EraRow],
  streams: Mapping[str, list[lunations_lib.Lunation]],
) -> Iterator[_EraRow]:
  """Yields the years of rulers where the source has eras alone, or nothing."""
  counted = {era.ruler for era in eras if not era.names}
  rows = [
    row
    for row in _read_csv(source / "ruler_table.csv")
    if row["dyn_id"] in _POLITIES_OF_REIGNS
  ]
  rows.sort(key=lambda row: float(row["emp_start_year"]))
  for row, successor in itertools.pairwise(rows):
    if row["person_id"] in counted:
      continue
    stream = _POLITIES_OF_REIGNS[row["dyn_id"]]
    first, end = (
      next(m.first_day for m in streams[stream] if m.year == year)
      for year in (
        int(float(row["emp_start_year"])),
        int(float(successor["emp_start_year"])) + 1,
      )
    )
    yield _EraRow(
      f"r{row['person_id']}",
      row["dyn_id"],
      row["person_id"],
      [],
      stream,
      first,
      end - 1,
      int(float(row["emp_start_year"])),
    )


def _read_vietnam(
  months: Sequence[lunations_lib.Lunation],
) -> Iterator[_EraRow]:
  """Yields the eras of `vietnam.tsv`, which count the months of China.

  Without a known first month an era shares its first year with the one before.
  """
  rows = files.read_tsv_rows(FOLDER / "vietnam.tsv", VIETNAM_COLUMNS)
  first_days = {
    f"{month.year}.{month.month}": month.first_day
    for month in months
    if not month.leap
  }
  last_days = {
    f"{month.year}.{month.month}": month.first_day + month.length - 1
    for month in months
  }
  for number, (row, following) in enumerate(
    itertools.zip_longest(rows, rows[1:]), start=1
  ):
    yield _EraRow(
      f"v{number}",
      row["polity"],
      row["polity"] + row["ruler"],
      [row["name"], *filter(None, row["spellings"].split(","))],
      "zhou_qing",
      first_days[row["first"]],
      last_days[row["last"] or f"{following['first_year']}.12"]
      if row["last"] or not following["month_source"]
      else first_days[following["first"]] - 1,
      int(row["first_year"]),
    )


def _day_of(julian_date: str) -> int:
  """Returns the day that begins at the midnight `julian_date`."""
  return round(float(julian_date) + 0.5)


def _stream_of_era(row: Mapping[str, str]) -> str:
  """Returns the stream by which an era counted its months."""
  if row["dyn_id"] in _STREAM_OF_POLITY:
    return _STREAM_OF_POLITY[row["dyn_id"]]
  year = int(row["era_start_year"])
  # 天祐 of 遼 was counted from 904, before its stream begins.
  distance_by_stream = {
    name: max(first - year, year - last, 0)
    for name, (number, first, last) in lunations_lib.STREAMS.items()
    if number == int(float(row["cal_stream"]))
  }
  return min(distance_by_stream, key=distance_by_stream.__getitem__)


def _merge_spellings(rows: Iterable[_EraRow]) -> list[_EraRow]:
  """Returns one row for each era under each ruler, in order of time."""
  merged: list[_EraRow] = []
  for row in rows:
    for earlier in merged:
      is_same_count = (earlier.polity, earlier.first_year) == (
        row.polity,
        row.first_year,
      )
      # Of two rulers of one span the source does not say when they changed.
      is_same_span = (
        earlier.names[:1] == row.names[:1]
        and (earlier.first_day, earlier.last_day)
        == (row.first_day, row.last_day)
      ) or (
        earlier.ruler == row.ruler
        and abs(earlier.first_day - row.first_day) < 10
        and (
          earlier.era == row.era
          or (earlier.first_day, earlier.last_day)
          == (row.first_day, row.last_day)
        )
      )
      if is_same_count and is_same_span:
        earlier.names += [n for n in row.names if n not in earlier.names]
        break
    else:
      merged.append(row)
  counted = {
    (row.polity, row.first_year, name)
    for row in merged
    if row.last_day is not None
    for name in row.names
  }
  kept = [
    row
    for row in merged
    if row.last_day is not None
    or not any((row.polity, row.first_year, n) in counted for n in row.names)
  ]
  return sorted(kept, key=lambda row: (row.first_day, row.era))


def _iter_era_rows(
  eras: Sequence[_EraRow],
  streams: Mapping[str, list[lunations_lib.Lunation]],
) -> Iterator[tuple]:
  """Yields the rows of the table of eras."""
  first_days = {
    name: [row.first_day for row in months] for name, months in streams.items()
  }
  numbers: dict[str, int] = {}
  all_names = {name for era in eras for name in era.names}
  for era in eras:
    months = streams[era.stream]
    if era.last_day is None or era.last_day < era.first_day:
      raise ValueError(
        f"era {era.era} {'/'.join(era.names)} of {era.polity}: "
        f"{era.first_day} to {era.last_day}"
      )
    position = bisect.bisect_right(first_days[era.stream], era.first_day) - 1
    end = bisect.bisect_right(first_days[era.stream], era.last_day) - 1
    first, last = months[max(position, 0)], months[max(end, 0)]
    offset = first.year - era.first_year
    if not -2 <= offset < _MAX_YEARS or last.year < era.first_year:
      raise ValueError(
        f"era {era.era} {'/'.join(era.names)} of {era.polity}: 元年 is "
        f"{era.first_year}, first day in {first.year}"
      )
    numbers[era.era] = numbers.get(era.era, 0) + 1
    suffix = "abcdefgh"[numbers[era.era] - 1]
    name = era.names[0] if era.names else ""
    # A name that another era has of its own is not a spelling of this one.
    editions = {*_spell_editions(era.names)} - all_names
    spellings = sorted(_spell_names([*era.names, *editions]) - {name})
    yield (
      f"{era.era}{suffix}" if numbers[era.era] > 1 else era.era,
      era.polity,
      era.ruler,
      name,
      ",".join(spellings),
      era.stream,
      era.first_day,
      era.last_day,
      era.first_year,
      last.year - era.first_year + 1,
      first.label if first.year <= era.first_year else "1",
    )


def _spell_names(names: Iterable[str]) -> set[str]:
  """Returns names in Traditional, Simplified and the new Japanese forms."""
  names = set(names)
  to_simplified, to_old, to_new = map(_load_converter, ("t2s", "jp2t", "t2jp"))
  forms = names | {c.convert(n) for n in names for c in (to_old, to_new)}
  # 乾 stays as it is where it is read qián, as in all names of eras.
  return forms | {
    "".join(
      "乾" if a == "乾" else b
      for a, b in zip(form, to_simplified.convert(form), strict=True)
    )
    for form in forms
  }


def _spell_editions(names: Iterable[str]) -> Iterator[str]:
  """Yields names with another glyph, 寳應 or 大歷."""
  for name in names:
    for glyph, *others in _EDITION_GLYPHS:
      for other in others:
        # 太 and 大 alternate only at the start of a name.
        if name[0] == glyph if glyph in "太大" else glyph in name:
          yield name.replace(glyph, other, 1)


_load_converter = functools.cache(opencc.OpenCC)


def _polity_order(polity: str) -> tuple[bool, str]:
  """Returns the order of a polity: those of the source first."""
  return not polity.isdecimal(), polity.zfill(3)


def _iter_polity_rows(
  source: pathlib.Path,
  polities: set[str],
  corrections: Mapping[str, list[Mapping[str, str]]],
) -> Iterator[tuple]:
  """Yields the rows of the table of polities, those that have eras."""
  rows = list(_read_csv(source / "dynasty_table_dump.csv"))
  names = {row["dyn_id"]: [row["dyn_name"]] for row in rows}
  streams = {row["dyn_id"]: row["cal_stream"] for row in rows}
  for row in _read_csv(source / "dynasty_tags.csv"):
    names[row["dyn_id"]].append(row["string"])
  parents = {
    row["dyn_id"]: str(int(float(row["part_of"])))
    for row in rows
    if row["part_of"]
  }
  for polity in sorted(polities, key=_polity_order):
    own = list(names.get(polity, [polity]))
    own += names.get(parents.get(polity, ""), [])
    for part, parent in parents.items():
      if parent == polity and part not in polities:
        own += names[part]
    name = own[0]
    # The source lacks polities that a correction adds, most of them of China.
    country = _COUNTRY_BY_STREAM[int(float(streams.get(polity) or 1))]
    for row in corrections.get(polity, ()):
      if row["column"] == "country":
        country = row["value"]
      elif row["column"] == "name":
        if name != row["source"]:
          raise ValueError(f"correction of polity {polity}: name is {name!r}")
        own = [row["value"], *(n for n in own if n != name)]
        name = row["value"]
      else:
        own += row["value"].split(",")
    spellings = _spell_names(own)
    yield polity, name, ",".join(sorted(spellings - {name})), country


def _iter_early_states(
  source: pathlib.Path,
  streams: Mapping[str, list[lunations_lib.Lunation]],
  corrections: Mapping[str, list[Mapping[str, str]]],
) -> Iterator[tuple]:
  """Yields the states that ended before the first lunation."""
  first_lunation = min(months[0].year for months in streams.values())
  for row in _read_csv(source / "dynasty_table_dump.csv"):
    if not row["dyn_end_year"] or not row["dyn_start_year"]:
      continue
    first, last = (
      int(float(row[f"dyn_{end}_year"])) for end in ("start", "end")
    )
    if last < first_lunation:
      names = [row["dyn_name"]]
      for correction in corrections.get(row["dyn_id"], ()):
        names += correction["value"].split(",")
      spellings = sorted(_spell_names(names) - {names[0]})
      yield names[0], ",".join(spellings), first, last


def _iter_ruler_rows(
  source: pathlib.Path,
  rulers: set[str],
  corrections: Mapping[str, list[Mapping[str, str]]],
) -> Iterator[tuple]:
  """Yields the rows of the table of rulers, those that have eras."""
  polity_of = {
    row["person_id"]: row["dyn_id"]
    for row in _read_csv(source / "ruler_table.csv")
  }
  titles: dict[str, list[str]] = {}
  persons: dict[str, list[str]] = {}
  for row in _read_csv(source / "ruler_tags.csv"):
    # Their own names are marked; what only comes before an era is a title.
    names = persons if row["abr"] == "False" else titles
    names.setdefault(row["person_id"], []).append(row["string"])
  for row in _read_csv(source / "rul_can_name.csv"):
    persons.setdefault(row["person_id"], []).append(row["string"])
  for ruler, (correction, *_) in corrections.items():
    if correction["column"] == "added":
      polity_of[ruler], names_of_ruler = correction["value"].split()
      titles[ruler] = names_of_ruler.split(",")
  unknown = rulers - polity_of.keys()
  if unknown:
    raise ValueError(f"eras of rulers that are in no table: {sorted(unknown)}")
  for ruler in sorted(
    rulers, key=lambda r: (_polity_order(polity_of[r]), r.zfill(5))
  ):
    own_titles, own_names = titles.get(ruler, []), persons.get(ruler, [])
    own_titles += _derive_titles(own_titles, own_names)
    polity = polity_of[ruler]
    name = _short_name(own_titles, own_names, polity)
    for row in corrections.get(ruler, ()):
      if row["column"] == "polity":
        if polity != row["source"]:
          raise ValueError(f"correction of ruler {ruler}: polity is {polity!r}")
        polity = row["value"]
      elif row["column"] == "name":
        if name != row["source"]:
          raise ValueError(f"correction of ruler {ruler}: name is {name!r}")
        name = row["value"]
        own_titles.append(name)
      elif row["column"] == "names":
        own_titles += row["value"].split(",")
    spellings = {
      spelling
      for spelling in _spell_names(own_titles + own_names)
      if not _TITLE_OF_ANY_KING.fullmatch(spelling)
    }
    yield ruler, polity, name, ",".join(sorted(spellings - {name}))


def _derive_titles(titles: list[str], persons: list[str]) -> list[str]:
  """Returns titles of a ruler that the source has in longer names alone."""
  derived = [
    name.removesuffix("皇帝") + "帝"
    for name in titles
    if _LONG_TITLE.fullmatch(name)
  ]
  derived += [
    name.removesuffix("天皇") for name in titles if name.endswith("天皇")
  ]
  if not any(name[-1] in _RANKS for name in titles):
    for name, person in itertools.permutations(
      dict.fromkeys(titles + persons), 2
    ):
      title = name
      while len(person) > 1 and title.endswith(person):
        title = title.removesuffix(person)
      if title != name and _TITLE_BEFORE_PERSON.fullmatch(title):
        derived.append(title)
  return [name for name in dict.fromkeys(derived) if name not in titles]


def _short_name(titles: list[str], persons: list[str], polity: str) -> str:
  """Returns the names of a ruler in histories: 武帝, 太宗, 醍醐天皇."""
  ranks = (
    ("祖宗", "帝王公皇后")
    if not polity.isdecimal() or int(polity) >= _FIRST_TEMPLE_NAME_POLITY
    else ("帝", "王公皇后", "祖宗")
  )
  for ends in (*ranks, "主"):
    fitting = [name for name in titles if name[-1] in ends]
    if fitting:
      return min(fitting, key=len)
  return min(titles or persons, key=len)


def main(argv: Sequence[str]) -> None:
  """Entry point for absl."""
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  try:
    tables = build_tables(sanmiao_data_dir(), read_corrections())
  except (ModuleNotFoundError, ValueError) as error:
    raise SystemExit(f"build_tables: {error}") from error
  folder = pathlib.Path(_OUT.value) if _OUT.value else FOLDER
  write_tables(tables, folder)
  for name, rows in tables.items():
    size = (folder / f"{name}.tsv").stat().st_size
    print(f"{folder / name}.tsv: {len(rows)} rows, {size} bytes")


if __name__ == "__main__":
  app.run(main)
