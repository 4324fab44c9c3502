"""Table of what corpora of 10^6 to 10^9 records would cost, from measured rows.

  python -m tests.tools.corpus_costs [--check]

It renews the table of docs/guides/corpora.md from tests/results/cost.json,
whose rows are written by tests.benchmarks.beam_scale and shard_search. Costs
are taken to be linear: dating and encoding have the slope between the smallest
and the largest corpus of one process, shards and questions that of the largest.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Mapping, Sequence

from ctd_jax.evaluation import results
from ctd_jax.evaluation.results import ResultRow

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guides/corpora.md"
ROWS = ROOT / "tests/results/cost.json"
COMMAND = "python -m tests.tools.corpus_costs"
BEGIN, END = "<!-- costs -->\n", "<!-- costs end -->\n"
SIZES = {"10^6": 10**6, "10^8": 10**8, "10^9": 10**9}
_HOUR = 3600


def read_figures(
  rows: Sequence[ResultRow], mode: str, system: str
) -> dict[int, dict[str, float]]:
  """Returns size -> metric -> value of a system.

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
  return figures


def find_slope(
  figures: Mapping[int, Mapping[str, float]], metric: str
) -> float:
  """Returns what a record adds, between the smallest and the largest size."""
  small, large = min(figures), max(figures)
  if small == large:
    return figures[large][metric] / large
  added = figures[large][metric] - figures[small][metric]
  return added / (large - small)


def format_table(rows: Sequence[ResultRow]) -> str:
  """Returns the table as Markdown."""
  dating = read_figures(rows, "corpora", "local")
  of_size = {
    system: read_figures(rows, "shards", system)
    for system in ("build", "lance")
  }
  dated, files = (find_slope(dating, name) for name in ("processor", "disk"))
  largest = max(of_size["build"])
  build, lance = (of_size[system][largest] for system in ("build", "lance"))
  lines = [
    "| records | hours of one core: dates, vectors of 16 | GiB "
    "| hours: shards, vectors of 64 | GiB | a question, seconds of a core |",
    "| --: | --: | --: | --: | --: | --: |",
  ]
  for label, count in SIZES.items():
    shares = (
      dated * count / _HOUR,
      files * count,
      build["processor"] / largest * count / _HOUR,
      build["disk"] / largest * count,
      lance["processor_ms"] / 1000 / largest * count,
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
