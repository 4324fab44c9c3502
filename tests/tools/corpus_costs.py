"""Table of what corpora of 10^6 to 10^9 records would cost, from measured rows.

  python -m tests.tools.corpus_costs [--check]

It renews the table of docs/guides/corpora.md from tests/results/cost.json,
whose rows are written by tests.benchmarks.beam_scale and shard_search. Costs
are taken to be linear: a record costs what it does in the largest corpus that
one process made, or in the largest shards.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from ctd_jax.evaluation import results
from ctd_jax.evaluation.results import ResultRow

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guides/corpora.md"
ROWS = ROOT / "tests/results/cost.json"
COMMAND = "python -m tests.tools.corpus_costs"
BEGIN, END = "<!-- costs -->\n", "<!-- costs end -->\n"
SIZES = {"10^6": 10**6, "10^8": 10**8, "10^9": 10**9}
_HOUR = 3600


def read_largest(
  rows: Sequence[ResultRow], mode: str, system: str
) -> tuple[int, dict[str, float]]:
  """Returns the largest size of a system, and metric -> value there.

  Args:
    rows: of costs.
    mode: "corpora" or "shards".
    system: name without the size.

  Raises:
    ValueError: if there is none.
  """
  figures: dict[int, dict[str, float]] = {}
  for row in rows:
    name, _, size = row.system.rpartition("-")
    if row.mode == mode and name == system:
      figures.setdefault(int(size), {})[row.metric] = row.value
  if not figures:
    raise ValueError(f"{ROWS}: no row of mode {mode} and system {system}")
  largest = max(figures)
  return largest, figures[largest]


def format_table(rows: Sequence[ResultRow]) -> str:
  """Returns the table as Markdown."""
  records, dating = read_largest(rows, "corpora", "local")
  vectors, build = read_largest(rows, "shards", "build")
  searched, lance = read_largest(rows, "shards", "lance")
  lines = [
    "| records | hours of one core: dates, vectors of 16 | GiB "
    "| hours: shards, vectors of 64 | GiB | a question, seconds of a core |",
    "| --: | --: | --: | --: | --: | --: |",
  ]
  for label, count in SIZES.items():
    shares = (
      dating["processor"] / records * count / _HOUR,
      dating["disk"] / records * count,
      build["processor"] / vectors * count / _HOUR,
      build["disk"] / vectors * count,
      lance["processor_ms"] / 1000 / searched * count,
    )
    # Two digits, which is what the constants are worth.
    cells = " | ".join(f"{float(f'{share:.1e}'):,g}" for share in shares)
    lines.append(f"| {label} | {cells} |")
  return "\n".join(lines) + "\n"


def fill_page(text: str, table: str) -> str:
  """Returns the text of the page with a table between its marks.

  Raises:
    ValueError: if the page has no marks.
  """
  before, begin, rest = text.partition(BEGIN)
  _, end, after = rest.partition(END)
  if not begin or not end:
    raise ValueError(f"{PAGE}: no lines {BEGIN.strip()} and {END.strip()}")
  return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
  """Renews or checks the table."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--check", action="store_true", help="change nothing")
  flags = parser.parse_args()
  text = PAGE.read_text(encoding="utf-8")
  filled = fill_page(text, format_table(results.read_result_rows(ROWS)))
  if flags.check and filled != text:
    sys.exit(f"error: {PAGE.name} differs from its rows; run {COMMAND}")
  if not flags.check:
    PAGE.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
  main()
