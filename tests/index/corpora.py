"""Invented corpora for the tests of the index."""

import itertools
import json
import pathlib

from ctd_jax.chronology import numerals
from ctd_jax.index import correction_checks
from ctd_jax.index.building import index_builder
from ctd_jax.index.corrections import Correction
from ctd_jax.index.index_folder import IndexFolder

SURNAMES = "張王李趙陳楊黃周吳徐"
PLACES = ("涼州", "秦州", "雍州", "益州", "荊州", "揚州")
DEEDS = ("寇掠百姓", "修築城池", "獻白雉於廷", "大水壞廬舍")
YEARS = 6


def name_person(year: int, month: int) -> str:
  """Returns a name that nobody has but in one month."""
  given = numerals.format_numeral(year) + numerals.format_numeral(month)
  return SURNAMES[year % 10] + "勇" + given


def write_annals(path: pathlib.Path) -> None:
  """Writes annals of 泰始, a line a month and one that follows it."""
  lines = []
  for year, month in itertools.product(range(1, YEARS + 1), range(1, 13)):
    head = f"{numerals.format_numeral(month)}月，"
    if month == 1:
      number = "元" if year == 1 else numerals.format_numeral(year)
      head = f"泰始{number}年，春，正月，"
    person, place = name_person(year, month), PLACES[(month + year) % 6]
    lines.append(f"{head}{person}守{place}，賊{DEEDS[(year + month) % 4]}。")
    lines.append(f"是月，{person}擊賊於{place}，破之。")
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_notes(path: pathlib.Path) -> None:
  """Writes notes on the annals that print no date."""
  lines = [
    f"{name_person(5, 8)}者，涼州之人也，嘗擊賊，有功。",
    f"{name_person(3, 4)}為人勇毅，鄉里稱之。",
    "不知何時，賊又至。",
  ]
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_beir(folder: pathlib.Path, records: list[dict]) -> pathlib.Path:
  """Writes and returns a BEIR folder of the table `lu`, without queries."""
  folder.mkdir(parents=True, exist_ok=True)
  metadata = {"timeline": "lu", "titles": {"annals": "魯史"}}
  (folder / "metadata.json").write_text(json.dumps(metadata))
  with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
    for number, record in enumerate(records):
      line = {"_id": f"r{number}", "text": record["text"]}
      line["metadata"] = record.copy()
      del line["metadata"]["text"]
      file.write(json.dumps(line, ensure_ascii=False) + "\n")
  return folder


def build_index(
  folder: pathlib.Path, *sources: pathlib.Path | str, removed=(), **options
) -> index_builder.BuildResult:
  """Builds an index of texts, BEIR folders and names of sources.

  It dates no passages unless told to, which takes most of the time.
  """
  names = [
    f"beir:{it}" if isinstance(it, pathlib.Path) and it.is_dir() else str(it)
    for it in sources
  ]
  options = index_builder.BuildOptions(**{"use_passages": False} | options)
  return index_builder.build_index(folder, names, options, removed)


def list_dated_records(number: int = 30) -> list[dict]:
  """Returns records of as many months, each dated; of eleven years at most."""
  dates = [(1 + row // 12 % 11, 1 + row % 12) for row in range(number)]
  return [
    {
      "text": f"{name_person(year, month)}來聘。",
      "start": f"1-{year}-{month}",
      "source": "annals",
      "order": row,
    }
    for row, (year, month) in enumerate(dates)
  ]


def correct(folder, work, first, date, last=None, key=None, **changes):
  """Adds a correction as the pages do, and returns it."""
  index = IndexFolder.open(folder)
  last = last or first
  checked = correction_checks.check_correction(index, work, first, last, date)
  values = {"work": work, "first_record": first, "last_record": last}
  values |= {"date": date, "name": "A", "texts_sha256": checked.texts_sha256}
  key = key or f"{work} {first} {date}"
  return index.corrections.add(Correction(**values | changes), key)
