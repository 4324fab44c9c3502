"""Rows of the authors' demonstration files and the oddities in them.

The schema, the keys that the released script groups by and its formatting are
facts about the files; `released` decides what the dates mean on a calendar.

Source: specification 1.4 and 5.1 (schema, released script, sizes).
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ctd_jax.chronology import numerals
from ctd_jax_datasets.chunqiutr.release import released_files, schema
from ctd_jax_datasets.common import git_blobs, json_values
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import (
  DROPPED,
  NOTE,
  RESOLVED,
  CodeMeaning,
  FindingsReport,
)

TRADITIONAL, AD, STRICT = MODES = ("traditional", "ad", "strict")
QI, JIN = SUBSETS = ("qi", "jin")
# Names in the released documents.
SUBSET_NAMES: Mapping[str, str] = {QI: "齐纪", JIN: "晋纪"}
_URL = released_files.FILES[schema.MONTHS_FILE].url.rpartition("/")[0]
FILE_BLOBS: Mapping[str, git_blobs.Blob] = {
  "zztj-qiji-part-demo.jsonl": git_blobs.Blob(
    f"{_URL}/zztj-qiji-part-demo.jsonl",
    "4d95e75efef9a92be16db2be473f9ede2765eda6",
  ),
  "zztj-jinji-demo.jsonl": git_blobs.Blob(
    f"{_URL}/zztj-jinji-demo.jsonl",
    "c412cb4b141dcf8c0cb673774f1f581042d58d14",
  ),
}
FILE_BY_SUBSET: Mapping[str, str] = dict(zip(SUBSETS, FILE_BLOBS, strict=True))
# Calendars of the parts: in 齊紀 建元 is no era of 晉.
TIMELINE_BY_SUBSET: Mapping[str, str] = {QI: "tongjian_qi", JIN: "tongjian_jin"}
# (subset, mode) -> published numbers of documents and queries.
PUBLISHED_SIZES: Mapping[tuple[str, str], tuple[int, int]] = {
  (QI, TRADITIONAL): (266, 92),
  (QI, AD): (258, 88),
  (QI, STRICT): (204, 82),
  (JIN, TRADITIONAL): (818, 119),
  (JIN, AD): (818, 95),
  (JIN, STRICT): (818, 95),
}
MEANINGS: Mapping[str, CodeMeaning] = {
  code: CodeMeaning(level, text)
  for code, level, text in (
    ("file_differs", NOTE, "the file is not the released one (git blob id)"),
    ("size_differs", NOTE, "the released file has other sizes than published"),
    ("member_repeated", RESOLVED, "a JSON member occurs twice; last counts"),
    ("header", DROPPED, "a row that describes the file"),
    ("id_repeated", NOTE, "an id occurs again; rows are told apart by line"),
    ("number_unusable", RESOLVED, "a number is none; read as not given"),
    ("text_empty", NOTE, "title and description are empty"),
    ("no_key", DROPPED, "neither reign, year and label nor a numeric time"),
    ("no_strict_time", DROPPED, "time is not YYYY-MM-x with a numeric month"),
    (
      "key_from_time",
      RESOLVED,
      "key from `time`: reign, year or label is null",
    ),
    ("reign_phrase", RESOLVED, "the reign is a whole date; read for interval"),
    ("year_zero", NOTE, "`time` is in the year 0000"),
    ("era_not_ad", NOTE, "reign and year are another year than `time`"),
    ("label_leap", RESOLVED, "闰月: the month it names, or of the row before"),
    ("label_season", RESOLVED, "a season for a month; three months"),
    ("label_no_month", RESOLVED, "无月, 是岁 or the like; the whole year"),
    ("label_dash", NOTE, "— for a month: a volume heading, no event"),
    ("label_not_time", NOTE, "the label is another month than `time`"),
    ("key_mixed", NOTE, "rows of one key are dated with different words"),
  )
}
_MEMBERS = ("id", "time", "title", "description", "source")
# The day may be missing or be words; year and month are numbers.
_TIME_PATTERN = re.compile(r"(\d{1,4})-(\d{1,4})(?:-|$)")
_STRICT_TIME_PATTERN = re.compile(r"\d{4}-\d{2}-[^-]+")


@dataclasses.dataclass(frozen=True)
class DemoRow:
  """A usable row of a file.

  Attributes:
    line: number in the file, from 1.
    texts: the members `id`, `time`, `title`, `description` and `source`.
    emperor: "" if there is none, as for the other texts.
    reign: of the era.
    era_year: None if it is not given.
    ad_year: None if it is not given.
    month_label: `lunar_month_label`, else the name of `lunar_month`, else the
      season.
    day: sexagenary day.
  """

  line: int
  texts: Mapping[str, str]
  emperor: str
  reign: str
  era_year: int | None
  ad_year: int | None
  month_label: str
  day: str

  @property
  def year_month(self) -> tuple[int, int] | None:
    """(year, month) of the member `time`, None if it does not give both."""
    match = _TIME_PATTERN.match(self.texts["time"])
    if match is None:
      return None
    year, month = int(match[1]), int(match[2])
    return (year, month) if 1 <= month <= 12 else None

  @property
  def reign_date(self) -> str:
    """The row's own date in words: 「晋世祖武皇帝泰始元年三月」."""
    year = ""
    if self.era_year is not None:
      number = numerals.format_numeral(self.era_year)
      year = ("元" if self.era_year == 1 else number) + "年"
    return f"{self.emperor}{self.reign}{year}{self.month_label}"

  def format_date(self, mode: str) -> str:
    """Returns the date as the released script writes it in queries and texts.

    By reign in the mode `traditional`, if the row has one; else by the common
    era, 「公元479年正月」, as the member `time` has it: the year 0000 too.

    Args:
      mode: one of `MODES`, in which `group_key` is not None.
    """
    if mode == TRADITIONAL and self.reign:
      return self.reign_date
    year, month = self.year_month
    return f"公元{year}年{_name_month(month)}"

  @property
  def body(self) -> str:
    """Title and description, the title once."""
    title, description = self.texts["title"], self.texts["description"]
    return description if title in description else f"{title}\n{description}"

  def group_key(self, mode: str) -> tuple | None:
    """Returns what the released script groups the row by, None to drop it."""
    if mode == TRADITIONAL:
      if self.reign and self.era_year is not None and self.month_label:
        return self.emperor, self.reign, self.era_year, self.month_label
    elif mode == STRICT and not _STRICT_TIME_PATTERN.fullmatch(
      self.texts["time"]
    ):
      return None
    return self.year_month

  def format_dated_document(self, subset: str, mode: str) -> str:
    """Returns the body with the gold date in front, as it is released."""
    date = self.format_date(mode)
    day = f"（{self.day}）" if self.day else ""
    return f"【{SUBSET_NAMES[subset]} {date}{day}】\n{self.body}"


def read_rows(
  path: pathlib.Path, name: str, report: FindingsReport
) -> list[DemoRow]:
  """Returns the rows of a file without its headers.

  Args:
    path: JSON lines.
    name: in `FILES`, whose blob id it should have.
    report: takes the findings.

  Raises:
    SourceError: naming the line of what cannot be read.
  """
  content = path.read_bytes()
  content_blob_id = git_blobs.compute_blob_id(content)
  if content_blob_id != FILE_BLOBS[name].blob_id:
    report.add("file_differs", name, f"blob {content_blob_id}")
  rows, seen_ids, num_rows = [], set(), 0
  # Not splitlines: a text may hold other line separators of Unicode.
  for line, text in enumerate(json_values.decode_utf8(content).split("\n"), 1):
    if not text.strip():
      continue
    num_rows += 1
    location = f"line {line}"
    value = json_values.expect_type(
      json_values.parse_json(text, report, location), dict, location
    )
    row_id = json_values.get_member(value, "id", str, location)
    if row_id in seen_ids:
      report.add("id_repeated", location, row_id)
    seen_ids.add(row_id)
    row = _parse_row(value, line, report)
    if row is None:
      report.add("header", location, row_id)
    else:
      rows.append(row)
  report.facts["rows"] = num_rows
  if not rows:
    raise SourceError("no row with a date; expected JSON lines")
  return rows


def _parse_row(
  value: Mapping[str, Any], line: int, report: FindingsReport
) -> DemoRow | None:
  """Returns a row, None for one that describes the file."""
  location = f"line {line}"
  texts = {
    name: json_values.get_member(value, name, str, location)
    for name in _MEMBERS
  }
  meta = json_values.get_member(value, "time_meta", dict, location)

  def get_text(name: str) -> str:
    field_value = meta.get(name)
    if field_value is None:
      return ""
    return json_values.expect_type(
      field_value, str, f"{location}.time_meta.{name}"
    ).strip()

  def get_integer(name: str) -> int | None:
    field_value = meta.get(name)
    if field_value in (None, ""):
      return None
    try:
      return json_values.parse_integer(
        field_value, f"{location}.time_meta.{name}"
      )
    except SourceError as error:
      report.add("number_unusable", str(error))
      return None

  # A header describes the whole file: its id says so, or it spans years.
  is_year_span = meta.get("start_ad_year") or meta.get("end_ad_year")
  if "meta" in texts["id"] or (is_year_span and not get_text("reign")):
    return None
  month = get_integer("lunar_month")
  name = ""
  if month is not None and 1 <= month <= 12:
    name = _name_month(month)
  era_year = get_integer("era_year")
  # No era lasted a century; a larger number is a slip for the common era.
  if era_year is not None and not 1 <= era_year <= 99:
    report.add("number_unusable", location, f"era_year {era_year}")
    era_year = None
  return DemoRow(
    line,
    texts,
    get_text("emperor"),
    get_text("reign"),
    era_year,
    get_integer("ad_year"),
    get_text("lunar_month_label") or name or get_text("season"),
    get_text("day_ganzhi"),
  )


def _name_month(month: int) -> str:
  """Returns 正月 for 1, 二月 for 2."""
  return ("正" if month == 1 else numerals.format_numeral(month)) + "月"
