"""The gallery and the questions of `zztj/rebuilt`: source files in, data out.

Why: here the rules meet. The years of the printed headings are carried over to
the punctuated edition, the scanner gives the months within them, and a
paragraph that goes on into another month is cut there. Called by the builder
and, for the collated editions, by `audit`.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ctd_jax.benchmark import queries
from ctd_jax.chronology import annals, date_expressions
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timelines import Interval, TimeKey, Timeline
from ctd_jax_datasets.chunqiutr.records import number_records
from ctd_jax_datasets.chunqiutr.sources import SourceError
from ctd_jax_datasets.zztj import collation, editions, scan

CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")
TIMELINE = "tongjian"
SOURCE, REMARKS = "zizhitongjian", "historians"
SEED = 69
TITLE = "《資治通鑑》"
# The two printed ones in Traditional script, the others written anew.
TEMPLATES = (
  "請問{date}發生了什麼事？",
  "{title}在{date}記載了什麼？",
  "查詢{title}，{date}這一月有什麼重要事件？",
  "{date}，朝廷與諸國各有何事？",
  "試檢{title}，{date}條下所書何事？",
  "請列出{title}所載{date}的全部史事。",
)


@dataclasses.dataclass(frozen=True)
class Collated:
  """A juan in both editions.

  Attributes:
    name: number of the juan, 69-144.
    juan: as punctuated.
    printed: as printed with its year headings.
    starts: of every entry, the place of its first character among the
      Chinese characters of the juan, and the end of the last.
    places: place of every printed character among them, int `[N + 1]`.
    years: first month of the printed year of every entry.
  """

  name: int
  juan: editions.Juan
  printed: editions.Printed
  starts: tuple[int, ...]
  places: np.ndarray
  years: tuple[TimeKey, ...]


def collate(
  files: Mapping[str, pathlib.Path], timeline: Timeline
) -> Iterator[Collated]:
  """Yields every juan of the source files, in order.

  Args:
    files: name -> path, as in `checksums.tsv`.
    timeline: years that headings can name.

  Raises:
    SourceError: if a juan is there in one edition only, or the editions do
      not agree about where a year begins.
  """
  texts = _by_number(files, editions.TEXT_FOLDER)
  prints = _by_number(files, editions.PRINT_FOLDER)
  if texts.keys() != prints.keys() or not texts:
    raise SourceError(
      f"{editions.TEXT_FOLDER}/ holds juan {sorted(texts)} and "
      f"{editions.PRINT_FOLDER}/ juan {sorted(prints)}; both should hold the "
      "same, at least one"
    )
  following = timeline.key(0)
  for name in sorted(texts):
    juan = editions.parse_text(texts[name])
    printed = editions.parse_print(prints[name], timeline, following)
    pieces = [editions.han(entry.text) for entry in juan.entries]
    starts = [0, *np.cumsum([len(piece) for piece in pieces]).tolist()]
    places = collation.positions(printed.text, "".join(pieces))
    begins = [int(places[place]) for place, _ in printed.years]
    years = []
    for entry, begin, end in zip(
      juan.entries, starts, starts[1:], strict=False
    ):
      stretch = collation.stretch_of(begins, begin, end)
      if stretch is None:
        raise SourceError(
          f"{texts[name]}: {entry.place} stands before the first year heading "
          f"of {prints[name]}"
        )
      years.append(printed.years[stretch][1])
    yield Collated(name, juan, printed, tuple(starts), places, tuple(years))
    last = printed.years[-1][1]
    _, end = timeline.ordinals(timeline.year(last.reign, last.year))
    following = timeline.key(min(end + 1, len(timeline) - 1))


def _by_number(
  files: Mapping[str, pathlib.Path], folder: str
) -> dict[int, pathlib.Path]:
  """Returns number of the juan -> path; a name ends in three digits."""
  return {
    int(pathlib.PurePosixPath(name).stem[-3:]): path
    for name, path in files.items()
    if name.startswith(folder + "/")
  }


def build_gallery(
  files: Mapping[str, pathlib.Path], timeline: Timeline, seed: int = SEED
) -> tuple[tuple[Record, ...], dict[str, int]]:
  """Returns the records of the source files, and what was met on the way.

  Args:
    files: name -> path, as in `checksums.tsv`.
    timeline: `tongjian`.
    seed: shuffles the numbers of records and events.

  Returns:
    (records sorted by id, what -> how often).

  Raises:
    SourceError: if a file is not what its parser expects.
  """
  scanner = scan.ChronicleScanner()
  records: list[Record] = []
  counts: collections.Counter[str] = collections.Counter()
  orders: collections.Counter[str] = collections.Counter()

  def add(source: str, kind: str, text: str, key: TimeKey):
    records.append(Record("", text, source, kind, key, orders[source]))
    orders[source] += 1

  for juan in collate(files, timeline):
    counts["juan"] += 1
    counts["year headings"] += len(juan.printed.years)
    counts["year headings left out of the text"] += juan.juan.headings
    for entry, year in zip(juan.juan.entries, juan.years, strict=True):
      counts["entries"] += 1
      scanner.enter_reign(year.reign)
      scanner.enter_year(year.year)
      if entry.remark:
        add(REMARKS, annals.NEG_COMMENT, entry.text, scanner.key)
        continue
      parts = scan.date_entry(entry.text, scanner)
      counts["entries cut at a month"] += len(parts) > 1
      counts["entries that look back"] += scan.looks_back(entry.text)
      for text, key in parts:
        add(SOURCE, annals.EVENT, text, key)
  counts["months with an event"] = len(annals.months_of(records))
  numbered = number_records(_with_versions(records, seed), seed)
  return numbered, dict(counts)


def _with_versions(records: Sequence[Record], seed: int) -> list[Record]:
  """Returns the records, every event with a number of its own."""
  events = sum(record.kind == annals.EVENT for record in records)
  numbers = list(range(events))
  random.Random(seed).shuffle(numbers)
  left = iter(numbers)
  return [
    dataclasses.replace(record, version=f"v{next(left):05d}")
    if record.kind == annals.EVENT
    else record
    for record in records
  ]


def ask(
  records: Sequence[Record], timeline: Timeline, seed: int = SEED
) -> list[queries.Query]:
  """Returns a point query for every month with an event, sorted by id.

  Args:
    records: the gallery; only id, kind and key are read.
    timeline: names the months.
    seed: deals the templates and shuffles the numbers of the ids.
  """
  by_month = queries.index_positives(records)
  asked = []
  draw = random.Random(f"zztj:{seed}")
  for key in sorted(by_month):
    date = date_expressions.format_key(key, timeline)
    text = draw.choice(TEMPLATES).format(date=date, title=TITLE)
    asked.append((text, Interval.month(key), tuple(by_month[key])))
  return number_queries(asked, seed)


def number_queries(
  asked: Sequence[tuple[str, Interval, tuple[str, ...]]], seed: int
) -> list[queries.Query]:
  """Returns queries with shuffled numbers, sorted by id.

  Asked about one month a query is a point, about several a window.

  Args:
    asked: (text, months asked for, ids of the answers).
    seed: of the numbers, which tell nothing about time.
  """
  shuffled = list(asked)
  random.Random(seed).shuffle(shuffled)
  numbered = []
  for number, (text, interval, positives) in enumerate(shuffled):
    single = interval.start == interval.end
    family = queries.POINT if single else queries.WINDOW
    numbered.append(
      queries.Query(
        f"{family}-{number:05d}",
        text,
        family,
        "BASE_CONTENT",
        interval,
        positives,
        family,
      )
    )
  return sorted(numbered, key=lambda query: query.query_id)
