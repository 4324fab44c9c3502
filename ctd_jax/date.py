"""Dates the records of a chronicle from what they print and their order.

  python -m ctd_jax.date --input=chronicle.txt --reigns=table.tsv --out=dated

The chronicle is UTF-8 text, one record a line (or a paragraph, with
--unit=paragraph), in the order of time; headings may be missing. The reign
table has the columns of data/reigns/*.tsv; an installed one goes by its name,
e.g. --reigns=tongjian. Written are dates.tsv, a line for each record with its
most probable month and the second best, and dates.png, position in the text
against date with the probability as colour.

Sexagenary days count in every calendar. Where the reign table begins in 104 BCE
or later the months' days are computed; else the new moons are, and with which
of them a year began is found along with the dates.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import matplotlib.figure
import matplotlib.font_manager
import matplotlib.ticker
import numpy as np
from absl import flags

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.experts import days
from ctd_jax.dating.sequence import decoder, emissions, transitions
from ctd_jax.utils import command_line, files

COLUMNS = (
  "line",
  "reign",
  "year",
  "month",
  "common_era",
  "probability",
  "second",
  "second_probability",
  "text",
)
LINE, PARAGRAPH = UNITS = ("line", "paragraph")
# Characters of a record in dates.tsv.
SHOWN = 20
# Rounds of dating, each with the motion that the one before it showed.
ROUNDS = 2
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


@dataclasses.dataclass(frozen=True)
class Dates:
  """The records of a chronicle with their months.

  Attributes:
    lines: number of each record's first line, from 1.
    texts: the records.
    months: int [records, 2], the most probable month and the next, ordinals.
    probabilities: float [records, 2].
    calendar: names the ordinals.
    counts: how often a month, a season, ... is printed.
  """

  lines: list[int]
  texts: list[str]
  months: np.ndarray
  probabilities: np.ndarray
  calendar: emissions.Calendar
  counts: dict[str, int]


def read_records(path: pathlib.Path, unit: str) -> list[tuple[int, str]]:
  """Returns (line, text) of every record.

  Args:
    path: UTF-8 text.
    unit: "line", or "paragraph" where blank lines part the records.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what is not UTF-8, or if all is blank.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--input={path}: no such file")
  content = path.read_bytes()
  try:
    text = content.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    line = content[: error.start].count(b"\n") + 1
    raise ValueError(
      f"--input={path}, line {line}: not UTF-8 (byte "
      f"0x{content[error.start]:02x}); convert the file first"
    ) from None
  records: list[tuple[int, str]] = []
  open_paragraph = False
  # Not splitlines: a text may hold other line separators of Unicode.
  for number, raw in enumerate(text.split("\n"), 1):
    line = raw.strip()
    if line and open_paragraph:
      first, before = records[-1]
      records[-1] = first, before + line
    elif line:
      records.append((number, line))
    open_paragraph = unit == PARAGRAPH and bool(line)
  if not records:
    raise ValueError(
      f"--input={path}: no record; expected one a {unit}, in order of time"
    )
  return records


def find_table(name: str) -> pathlib.Path:
  """Returns the path of a reign table, a file or one of the installed.

  Raises:
    FileNotFoundError: naming those that are installed.
  """
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    return path
  installed = _installed()
  if name not in installed:
    raise FileNotFoundError(
      f"--reigns={name}: no such file, and no installed table of that name; "
      f"installed: {', '.join(installed)}"
    )
  return installed[name]


def _installed() -> dict[str, pathlib.Path]:
  """Returns name -> path of the installed reign tables."""
  return {
    path.stem: path for path in sorted(reign_tables.table_dir().glob("*.tsv"))
  }


def date_records(
  records: Sequence[tuple[int, str]],
  calendar: emissions.Calendar,
  first_year: int | None = None,
) -> Dates:
  """Returns the months of the records.

  Args:
    records: (line, text) in order.
    calendar: months that they can stand in.
    first_year: astronomical year of the first record, None if not known.

  Raises:
    ValueError: if no record prints anything of its date, or the calendar lacks
      the year.
  """
  sections = [
    section
    for number, (_, text) in enumerate(records)
    for section in emissions.read_sections(number, text, calendar)
  ]
  evidence = emissions.Evidence(sections, calendar)
  if not evidence.counts:
    raise ValueError(
      "no record prints a month, season, day or regnal year; without any "
      "there is nothing to date by"
    )
  decoded = decode(evidence, calendar, first_year)
  return Dates(
    [line for line, _ in records],
    [text for _, text in records],
    decoded.months[evidence.first],
    decoded.probabilities[evidence.first],
    calendar,
    dict(evidence.counts),
  )


def decode(
  evidence: emissions.Evidence,
  calendar: emissions.Calendar,
  first_year: int | None = None,
) -> decoder.Decoded:
  """Returns the months of the sections, the motion learned on the way.

  Args:
    evidence: of the sections in order.
    calendar: as the evidence was made for.
    first_year: as of `date_records`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
  prior = np.zeros(len(calendar))
  if first_year is not None:
    if first_year not in calendar.years:
      raise ValueError(
        f"the first year {reign_tables.bce(first_year)} is not in the reign table: "
        f"{_span(calendar.years)}"
      )
    prior = np.where(calendar.years == first_year, 0.0, -np.inf)
  if evidence.turn is not None:
    prior = np.log(days.usual())[:, None] + prior
  boundary = transitions.boundaries(calendar.years, calendar.months)
  believed = transitions.Motion()
  moves = transitions.make_moves(believed, boundary, evidence.turn)
  for _ in range(ROUNDS):
    path = decoder.best_path(evidence, evidence.kinds, moves, prior)
    learned = transitions.learn(believed, path, evidence.kinds, boundary)
    moves = transitions.make_moves(learned, boundary, evidence.turn)
  return decoder.decode(evidence, evidence.kinds, moves, calendar.years, prior)


def table(dates: Dates) -> str:
  """Returns dates.tsv."""
  rows = ["\t".join(COLUMNS)]
  for line, text, months, chances in zip(
    dates.lines, dates.texts, dates.months, dates.probabilities, strict=True
  ):
    reign, year, month = dates.calendar.name(months[0])
    era = reign_tables.bce(int(dates.calendar.years[months[0]]))
    # A table of one month has no second.
    second = "".join(
      f"{name}{other}年{number}月"
      for name, other, number in map(dates.calendar.name, months[1:])
    )
    cells = (
      *(line, reign, year, month, era, f"{chances[0]:.4f}", second),
      "".join(f"{chance:.4f}" for chance in chances[1:]),
      " ".join(text[:SHOWN].split()),
    )
    rows.append("\t".join(map(str, cells)))
  return "\n".join(rows) + "\n"


def summary(dates: Dates, table_name: str) -> str:
  """Returns what was read and how sure the dates are, in aligned lines."""
  calendar, chances = dates.calendar, dates.probabilities[:, 0]
  years = calendar.years
  found = years[dates.months[:, 0]]
  least = int(np.argmin(chances))
  reign, year, month = calendar.name(dates.months[least, 0])
  said = ", ".join(f"{name} {n}" for name, n in sorted(dates.counts.items()))
  computed = "new moons" if calendar.days is None else "days"
  rows = {
    "records": f"{len(chances)}",
    "they print": said,
    "calendar": f"{table_name}: {_span(years)}, {len(calendar)} months, "
    f"{computed} computed",
    "dated": _span(found),
    "certainty": f"{np.mean(chances >= 0.9):.1%} of records at 0.9 or more, "
    f"{np.mean(chances < 0.5):.1%} below 0.5",
    "least sure": f"line {dates.lines[least]}, {reign}{year}年{month}月 at "
    f"{chances[least]:.2f}",
  }
  return "\n".join(f"{name:<11} {value}" for name, value in rows.items())


def _span(years: np.ndarray) -> str:
  return f"{reign_tables.bce(int(min(years)))} to {reign_tables.bce(int(max(years)))}"


def plot(dates: Dates, path: pathlib.Path) -> None:
  """Writes a PNG of position in the text against date."""
  calendar = dates.calendar
  months = calendar.years + (calendar.months - 0.5 + 0.5 * calendar.leap) / 12
  when = months[dates.months[:, 0]]
  figure = matplotlib.figure.Figure(figsize=(8.5, 5), layout="constrained")
  axes = figure.add_subplot()
  dots = axes.scatter(
    *(dates.lines, when),
    s=9,
    c=dates.probabilities[:, 0],
    cmap="viridis",
    vmin=0,
    vmax=1,
    linewidths=0,
  )
  axes.set_xlabel("line of the text")
  axes.set_ylabel("year")
  axes.set_title(f"Dates of {len(when)} records by cues and order")
  axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
  axes.yaxis.set_major_formatter(lambda year, _: reign_tables.bce(round(year)))
  axes.grid(True, color="0.9")
  axes.set_axisbelow(True)
  axes.margins(x=0.02, y=0.04)
  axes.spines[["top", "right"]].set_visible(False)
  _name_reigns(axes, dates)
  bar = figure.colorbar(dots, ax=axes, pad=0.02)
  bar.set_label("probability of the month")
  files.write_figure(path, figure)


def _name_reigns(axes, dates: Dates) -> None:
  """Writes the reigns beside the axis, as numbers where no font has them."""
  known = {font.name for font in matplotlib.font_manager.fontManager.ttflist}
  font = next((name for name in _CJK_FONTS if name in known), None)
  calendar = dates.calendar
  bottom, top = axes.get_ylim()
  ticks, labels = [], []
  for place in dict.fromkeys(calendar.reigns[np.sort(dates.months[:, 0])]):
    row = calendar.timeline.reigns[place]
    # Eras of a year or two would be written over one another.
    if bottom <= row.accession <= top and (
      not ticks or row.accession - ticks[-1] >= (top - bottom) / 28
    ):
      ticks.append(row.accession)
      name = row.state + row.name
      labels.append(name if font else f"{place + 1}")
  side = axes.secondary_yaxis("right")
  if not font:
    side.set_ylabel("reign, by its row in the table")
  side.set_yticks(ticks, labels, fontsize=8, family=font)
  side.spines["right"].set_color("0.7")


def main() -> None:
  """Dates the chronicle of --input."""
  values = flags.FLAGS
  path = pathlib.Path(values.input).expanduser()
  out = pathlib.Path(values.out or f"{path.stem}_dates").expanduser()
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  records = read_records(path, values.unit)
  chosen = find_table(values.reigns)
  calendar = emissions.read_calendar(chosen)
  try:
    first = values.first_year and reign_tables.astronomical(values.first_year)
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  try:
    dates = date_records(records, calendar, first)
  except ValueError as error:
    raise ValueError(f"--input={path}: {error}") from error
  files.write_text(out / "dates.tsv", table(dates))
  plot(dates, out / "dates.png")
  print(summary(dates, chosen.name))
  print(f"{'written':<11} {out / 'dates.tsv'}, {out / 'dates.png'}")


if __name__ == "__main__":
  flags.DEFINE_string(
    "input",
    None,
    "Chronicle as UTF-8 text, records in order of time. Example: "
    "--input=chronicle.txt",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Reign table: a TSV file like those of data/reigns, or the name of an "
    f"installed one ({', '.join(_installed())}). Example: "
    "--reigns=table.tsv",
  )
  flags.DEFINE_string(
    "out",
    None,
    "Folder of dates.tsv and dates.png; by default named after the chronicle: "
    "chronicle_dates. Example: --out=dated",
  )
  flags.DEFINE_enum(
    "unit",
    LINE,
    UNITS,
    "What a record is: a line, or a paragraph between blank lines. Example: "
    "--unit=paragraph",
  )
  flags.DEFINE_string(
    "first_year",
    None,
    "Year of the first record, if known. Example: --first_year='722 BCE'",
  )
  command_line.run(main, required=("input", "reigns"))
