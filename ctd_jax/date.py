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
from ctd_jax.utils import command_line, files, plotting

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
MAX_TEXT_CHARS = 20
# Rounds of dating, each with the motion that the one before it showed.
NUM_ROUNDS = 2
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
class ChronicleDates:
  """The records of a chronicle with their months.

  Attributes:
    lines: number of each record's first line, from 1.
    texts: the records.
    months: int [records, 2], the most probable month and the next, ordinals.
    probabilities: float [records, 2].
    calendar: names the ordinals.
    statement_counts: how often a month, a season, ... is printed.
  """

  lines: list[int]
  texts: list[str]
  months: np.ndarray
  probabilities: np.ndarray
  calendar: emissions.Calendar
  statement_counts: dict[str, int]


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
      first, previous_text = records[-1]
      records[-1] = first, previous_text + line
    elif line:
      records.append((number, line))
    open_paragraph = unit == PARAGRAPH and bool(line)
  if not records:
    raise ValueError(
      f"--input={path}: no record; expected one a {unit}, in order of time"
    )
  return records


def find_reign_table(name: str) -> pathlib.Path:
  """Returns the path of a reign table, a file or one of the installed.

  Raises:
    FileNotFoundError: naming those that are installed.
  """
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    return path
  installed_tables = _list_installed_tables()
  if name not in installed_tables:
    raise FileNotFoundError(
      f"--reigns={name}: no such file, and no installed table of that name; "
      f"installed: {', '.join(installed_tables)}"
    )
  return installed_tables[name]


def _list_installed_tables() -> dict[str, pathlib.Path]:
  """Returns name -> path of the installed reign tables."""
  return {
    path.stem: path
    for path in sorted(reign_tables.reign_table_dir().glob("*.tsv"))
  }


def date_records(
  records: Sequence[tuple[int, str]],
  calendar: emissions.Calendar,
  first_year: int | None = None,
) -> ChronicleDates:
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
  record_emissions = emissions.RecordEmissions(sections, calendar)
  if not record_emissions.statement_counts:
    raise ValueError(
      "no record prints a month, season, day or regnal year; without any "
      "there is nothing to date by"
    )
  decoded_months = decode_sections(record_emissions, calendar, first_year)
  return ChronicleDates(
    [line for line, _ in records],
    [text for _, text in records],
    decoded_months.months[record_emissions.first_sections],
    decoded_months.probabilities[record_emissions.first_sections],
    calendar,
    dict(record_emissions.statement_counts),
  )


def decode_sections(
  emissions: emissions.RecordEmissions,
  calendar: emissions.Calendar,
  first_year: int | None = None,
) -> decoder.DecodedMonths:
  """Returns the months of the sections, the motion learned on the way.

  Args:
    emissions: of the sections in order.
    calendar: as the evidence was made for.
    first_year: as of `date_records`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
  prior = np.zeros(len(calendar))
  if first_year is not None:
    if first_year not in calendar.years:
      raise ValueError(
        f"the first year {reign_tables.format_common_era_year(first_year)} is not in the reign table: "
        f"{_format_span(calendar.years)}"
      )
    prior = np.where(calendar.years == first_year, 0.0, -np.inf)
  if emissions.offset_transition is not None:
    prior = np.log(days.make_offset_prior())[:, None] + prior
  boundary = transitions.find_boundaries(calendar.years, calendar.months)
  prior_model = transitions.TransitionModel()
  log_transitions = transitions.make_transitions(
    prior_model, boundary, emissions.offset_transition
  )
  for _ in range(NUM_ROUNDS):
    path = decoder.find_best_path(
      emissions, emissions.kinds, log_transitions, prior
    )
    fitted_model = transitions.fit_transition_model(
      prior_model, path, emissions.kinds, boundary
    )
    log_transitions = transitions.make_transitions(
      fitted_model, boundary, emissions.offset_transition
    )
  return decoder.decode_months(
    emissions, emissions.kinds, log_transitions, calendar.years, prior
  )


def format_dates_tsv(dates: ChronicleDates) -> str:
  """Returns dates.tsv."""
  rows = ["\t".join(COLUMNS)]
  for line, text, months, chances in zip(
    dates.lines, dates.texts, dates.months, dates.probabilities, strict=True
  ):
    reign, year, month = dates.calendar.name_month(months[0])
    era = reign_tables.format_common_era_year(
      int(dates.calendar.years[months[0]])
    )
    # A table of one month has no second.
    second = "".join(
      f"{second_reign}{second_year}年{second_month}月"
      for second_reign, second_year, second_month in map(
        dates.calendar.name_month, months[1:]
      )
    )
    cells = (
      *(line, reign, year, month, era, f"{chances[0]:.4f}", second),
      "".join(f"{chance:.4f}" for chance in chances[1:]),
      " ".join(text[:MAX_TEXT_CHARS].split()),
    )
    rows.append("\t".join(map(str, cells)))
  return "\n".join(rows) + "\n"


def format_summary(dates: ChronicleDates, table_name: str) -> str:
  """Returns what was read and how sure the dates are, in aligned lines."""
  calendar, chances = dates.calendar, dates.probabilities[:, 0]
  years = calendar.years
  dated_years = years[dates.months[:, 0]]
  least_certain = int(np.argmin(chances))
  reign, year, month = calendar.name_month(dates.months[least_certain, 0])
  printed_counts = ", ".join(
    f"{name} {count}" for name, count in sorted(dates.statement_counts.items())
  )
  computed_unit = "new moons" if calendar.day_spans is None else "days"
  rows = {
    "records": f"{len(chances)}",
    "they print": printed_counts,
    "calendar": f"{table_name}: {_format_span(years)}, {len(calendar)} months, "
    f"{computed_unit} computed",
    "dated": _format_span(dated_years),
    "certainty": f"{np.mean(chances >= 0.9):.1%} of records at 0.9 or more, "
    f"{np.mean(chances < 0.5):.1%} below 0.5",
    "least sure": f"line {dates.lines[least_certain]}, {reign}{year}年{month}月 at "
    f"{chances[least_certain]:.2f}",
  }
  return "\n".join(f"{name:<11} {value}" for name, value in rows.items())


def _format_span(years: np.ndarray) -> str:
  return f"{reign_tables.format_common_era_year(int(min(years)))} to {reign_tables.format_common_era_year(int(max(years)))}"


def plot_dates(dates: ChronicleDates, path: pathlib.Path) -> None:
  """Writes a PNG of position in the text against date."""
  calendar = dates.calendar
  calendar_years = (
    calendar.years + (calendar.months - 0.5 + 0.5 * calendar.is_leap) / 12
  )
  record_years = calendar_years[dates.months[:, 0]]
  figure = matplotlib.figure.Figure(figsize=(8.5, 5), layout="constrained")
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


def _label_reigns(axes, dates: ChronicleDates) -> None:
  """Writes the reigns beside the axis, as numbers where no font has them."""
  installed_fonts = {
    font.name for font in matplotlib.font_manager.fontManager.ttflist
  }
  font = next((name for name in _CJK_FONTS if name in installed_fonts), None)
  calendar = dates.calendar
  bottom, top = axes.get_ylim()
  ticks, labels = [], []
  for reign_index in dict.fromkeys(
    calendar.reign_indices[np.sort(dates.months[:, 0])]
  ):
    reign = calendar.timeline.reigns[reign_index]
    # Eras of a year or two would be written over one another.
    if bottom <= reign.accession <= top and (
      not ticks or reign.accession - ticks[-1] >= (top - bottom) / 28
    ):
      ticks.append(reign.accession)
      name = reign.state + reign.name
      labels.append(name if font else f"{reign_index + 1}")
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
  reign_table = find_reign_table(values.reigns)
  calendar = emissions.read_calendar(reign_table)
  try:
    first = values.first_year and reign_tables.parse_common_era_year(
      values.first_year
    )
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  try:
    dates = date_records(records, calendar, first)
  except ValueError as error:
    raise ValueError(f"--input={path}: {error}") from error
  files.write_text(out / "dates.tsv", format_dates_tsv(dates))
  plot_dates(dates, out / "dates.png")
  print(format_summary(dates, reign_table.name))
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
    f"installed one ({', '.join(_list_installed_tables())}). Example: "
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
  command_line.run_main(main, required=("input", "reigns"))
