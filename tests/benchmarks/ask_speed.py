"""Time of an index: opening it, a hundred mixed questions, a cold command.

  python -m tests.benchmarks.ask_speed --index=INDEX [--rows=FILE]
    [--name=chunqiutr/rebuilt]

Questions are made of the index itself: months, years and intervals of its
calendar, days, words of its texts alone and with a year, and passages of them
if it dates passages. It prints the median and slowest time of each kind, of
answers with reasons, in a process that has answered one question of each kind
before.
Limits: opening 1 s; a question 0.1 s of 21,188 records, 0.5 s of a million; a
cold command 4 s.
"""

import collections
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import sexagenary
from ctd_jax.index import calendars, database
from ctd_jax.index.asking import Index
from tests.benchmarks import result_rows

_HAN_RUN = re.compile("[\u3400-\u9fff]{4,}")


def draw_questions(index: Index, number: int, seed: int):
  """Returns (kind, question, intent)."""
  draw = np.random.default_rng(seed)
  calendar, questions = index.calendar, []
  rows = [row for work in index.works for row in work.rows]
  kinds = ["month", "year", "interval", "day", "words", "words+year"]
  if index.manifest.passages:
    kinds.append("passage")
  while len(questions) < number:
    kind = kinds[len(questions) % len(kinds)]
    row = rows[int(draw.integers(len(rows)))]
    record = database.fetch_records(index.connection, [row])[0]
    runs = _HAN_RUN.findall(record.text)
    month = min(record.best_month, len(calendar) - 1)
    year = calendars.name_year(calendar, month)
    if not runs:
      continue
    run = runs[int(draw.integers(len(runs)))]
    start = int(draw.integers(len(run) - 1))
    words = run[start : start + int(draw.integers(2, 5))]
    first, last = (
      f"{1 - ce_year} BCE" if ce_year < 1 else f"{ce_year} CE"
      for ce_year in calendar.years[
        [month, min(month + 40, len(calendar) - 1)]
      ].tolist()
    )
    day = sexagenary.format_cyclic_index(int(draw.integers(60)))
    text, intent = {
      "month": (calendars.name_month(calendar, month), "time"),
      "year": (year, "time"),
      "interval": (f"{first}..{last}", "time"),
      "day": (f"{year}{day}", None),
      "words": (words, "words"),
      "words+year": (f"{year}「{words}」", None),
      "passage": (record.text[:200], "passage"),
    }[kind]
    questions.append((kind, text, intent))
  return questions


def time_questions(
  index: Index, questions: Sequence[tuple[str, str, str | None]]
) -> dict[str, np.ndarray]:
  """Returns kind -> seconds and those of the processor, [n, 2]."""
  warmed = set()
  times = collections.defaultdict(list)
  for kind, text, intent in questions:
    if kind not in warmed:
      warmed.add(kind)
      index.ask(text, intent=intent)
    started, started_cpu = time.perf_counter(), time.process_time()
    index.ask(text, intent=intent)
    times[kind].append(
      (time.perf_counter() - started, time.process_time() - started_cpu)
    )
  return {kind: np.array(values) for kind, values in times.items()}


def time_command(
  folder: str, text: str, intent: str | None
) -> tuple[float, float]:
  """Returns seconds of a command that has to start, and of the processor."""
  arguments = [f"--index={folder}", text]
  arguments += [f"--intent={intent}"] if intent else []
  before = os.times()
  started = time.perf_counter()
  subprocess.run(
    [sys.executable, "-m", "ctd_jax.ask", *arguments],
    check=False,
    capture_output=True,
  )
  wall = time.perf_counter() - started
  after = os.times()
  processor = (after.children_user + after.children_system) - (
    before.children_user + before.children_system
  )
  return wall, processor


def summarize(times: np.ndarray) -> dict[str, float]:
  """Returns the figures of the times of some questions, in milliseconds."""
  wall, processor = 1000 * times.T
  return {
    "questions": len(times),
    "median_ms": float(np.median(wall)),
    "slowest_ms": float(wall.max()),
    "processor_ms": float(np.median(processor)),
  }


def main() -> None:
  """Prints the times."""
  parser = result_rows.make_index_parser(__doc__)
  flags = parser.parse_args()
  begun = started = time.perf_counter()
  index = Index.open(flags.index)
  _ = index.works, index.calendar
  opening = time.perf_counter() - started
  questions = draw_questions(index, number=100, seed=1)
  times = time_questions(index, questions)
  figures = {"all": summarize(np.concatenate([*times.values()]))}
  figures |= {kind: summarize(values) for kind, values in times.items()}
  for kind, text, intent in questions[: len(times)]:
    wall, processor = time_command(flags.index, text, intent)
    figures[kind] |= {"cold_seconds": wall, "cold_processor": processor}
  figures["all"] |= {
    "opening_seconds": opening,
    "load": result_rows.read_load(),
    **{
      name: max(figures[kind][name] for kind in times)
      for name in ("cold_seconds", "cold_processor")
    },
  }
  about = result_rows.describe_run("ask_speed", time.perf_counter() - begun)
  system = result_rows.name_system(index.num_records)
  rows = []
  for kind, of_kind in figures.items():
    rows += result_rows.make_cost_rows(
      about, flags.name, system, "ask", of_kind, kind
    )
  result_rows.print_rows(rows)
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
