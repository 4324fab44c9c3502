"""Time of an index: opening it, a hundred mixed questions, a cold command.

  python tests/benchmarks/ask_speed.py --index=INDEX [--seed=1] [--number=100]

Questions are made of the index itself: months, years and intervals of its
calendar, days, words of its texts alone and with a year, and passages of them
if it dates passages. Printed are medians and the slowest by kind, of answers
with reasons, in a process that has answered one question of each kind before.
Limits: opening 1 s; a question 0.1 s of 21,188 records, 0.5 s of a million; a
cold command 4 s.
"""

from __future__ import annotations

import argparse
import collections
import re
import resource
import subprocess
import sys
import time

import numpy as np

from ctd_jax.chronology import sexagenary
from ctd_jax.index import calendars
from ctd_jax.index.search import Index
from ctd_jax.index.storage import database

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
    ce_year = int(calendar.years[month])
    first = f"{1 - ce_year} BCE" if ce_year < 1 else f"{ce_year} CE"
    end = int(calendar.years[min(month + 40, len(calendar) - 1)])
    last = f"{1 - end} BCE" if end < 1 else f"{end} CE"
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


def main() -> None:
  """Prints the times."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--number", type=int, default=100)
  flags = parser.parse_args()
  started = time.perf_counter()
  index = Index.open(flags.index)
  _ = index.works, index.calendar
  print(f"opening {time.perf_counter() - started:.3f} s, {index!r}")
  questions = draw_questions(index, flags.number, flags.seed)
  warmed = set()
  seconds, cpu = collections.defaultdict(list), collections.defaultdict(list)
  for kind, text, intent in questions:
    if kind not in warmed:
      warmed.add(kind)
      index.ask(text, intent=intent)
    started, started_cpu = time.perf_counter(), time.process_time()
    index.ask(text, intent=intent)
    seconds[kind].append(time.perf_counter() - started)
    cpu[kind].append(time.process_time() - started_cpu)
  every = [value for values in seconds.values() for value in values]
  every_cpu = [value for values in cpu.values() for value in values]
  print(
    f"{len(every)} questions: median {1000 * np.median(every):.1f} ms, "
    f"slowest {1000 * max(every):.1f} ms; of the processor "
    f"{1000 * np.median(every_cpu):.1f} ms"
  )
  for kind, values in seconds.items():
    print(
      f"  {kind:10} {len(values):3} median {1000 * np.median(values):7.1f} ms "
      f"slowest {1000 * max(values):7.1f} ms; of the processor "
      f"{1000 * np.median(cpu[kind]):7.1f} ms"
    )
  for kind, text, intent in questions[: len(seconds)]:
    arguments = [f"--index={flags.index}", text]
    arguments += [f"--intent={intent}"] if intent else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
      [sys.executable, "-m", "ctd_jax.ask", *arguments],
      check=False,
      capture_output=True,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = (after.ru_utime + after.ru_stime) - (
      before.ru_utime + before.ru_stime
    )
    print(f"  cold {kind:10} {wall:.2f} s; of the processor {processor:.2f} s")


if __name__ == "__main__":
  main()
