"""Time, memory and equality of a corpus that is dated by 1, 2, ... workers.

Invented chronicles of Lu are written, a file each, then dated, encoded and
indexed as shards by `ctd-jax corpora`: in one process without Beam, and by
DirectRunner with every number of workers. All have to write the same dates and
vectors, byte by byte, and shards of the same rows. Memory is the peak of the
sum over all processes of a run of what is no page of a file, looked at every
quarter of a second.

With --links the chronicles tell tales of 24 characters, a fifth of them tales
that other works tell too, and each run is followed by one with --links, in the
same folder: its cost is that of the links, and of reading the texts. Rows are
of that one.

  python -m tests.benchmarks.beam_scale --folder=/tmp/beam --records=1000000 \\
    --workers=1,2

It needs Apache Beam and LanceDB (pip install 'ctd_jax[beam,lance]'). Without
--encoder, vectors are made by an encoder of one layer of 16 with random
weights. --rows writes result rows.
"""

from __future__ import annotations

import argparse
import filecmp
import itertools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import threading
import time

import lancedb
import pyarrow as pa

from ctd_jax.corpora import corpus_files, shards
from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.utils.beam_runner import DIRECT, LOCAL
from tests.benchmarks import cost_rows
from tests.corpora import invented_corpus
from tests.models import published_folder

_SECONDS_BETWEEN_LOOKS = 0.25
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB", re.MULTILINE)


def write_encoder(folder: pathlib.Path, texts: pathlib.Path) -> pathlib.Path:
  """Writes a tiny encoder with random weights and returns its folder."""
  first = min(texts.iterdir()).read_text(encoding="utf-8")
  published_folder.write(folder, first.splitlines())
  side = SideSettings("", 40)
  settings = VectorSettings("mean", True, side, side)
  vector_settings.write_vector_settings(folder, settings, 16)
  return folder


def count_allocated(session: int) -> int:
  """Returns the bytes of all processes of a session that are no file pages."""
  total = 0
  for folder in pathlib.Path("/proc").iterdir():
    if folder.name.isdecimal():
      try:
        if os.getsid(int(folder.name)) != session:
          continue
        status = (folder / "status").read_text()
      except OSError:  # it has ended since
        continue
      match = _ANONYMOUS.search(status)
      total += 1024 * int(match[1]) if match else 0
  return total


def run(command: list[str], out: pathlib.Path) -> dict[str, float]:
  """Runs a command; returns what it takes: time, memory, files for a while.

  Args:
    command: whose processes are looked at.
    out: folder of the corpus.
  """
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  start = time.perf_counter()
  process = subprocess.Popen(
    command, stdout=subprocess.DEVNULL, start_new_session=True
  )
  peak, scratch, done = [0], [0], threading.Event()

  def watch() -> None:
    while not done.wait(_SECONDS_BETWEEN_LOOKS):
      peak[0] = max(peak[0], count_allocated(process.pid))
      size = sum(map(_count_scratch, out.glob(".links-*")))
      scratch[0] = max(scratch[0], size)

  watcher = threading.Thread(target=watch, daemon=True)
  watcher.start()
  status = process.wait()
  seconds = time.perf_counter() - start
  done.set()
  watcher.join()
  if status:
    raise SystemExit(f"error: {' '.join(command)} ended with {status}")
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  return {
    "seconds": seconds,
    "processor": (after.ru_utime + after.ru_stime)
    - (before.ru_utime + before.ru_stime),
    "bytes": peak[0],
    "scratch": scratch[0],
  }


def _count_scratch(folder: pathlib.Path) -> int:
  """Returns the size of files of which some may go meanwhile."""
  try:
    return cost_rows.count_bytes(folder)
  except OSError:
    return 0


def count_differing(left: pathlib.Path, right: pathlib.Path) -> int:
  """Returns how many files or shards are not in both, or not the same."""
  names = {
    path.relative_to(folder).as_posix()
    for folder in (left, right)
    for pattern in (corpus_files.CORPUS_FILE, "*/*.parquet")
    for path in folder.glob(pattern)
  }
  same, _, _ = filecmp.cmpfiles(left, right, names, shallow=False)
  return len(names) - len(same) + (_read_shards(left) != _read_shards(right))


def _read_shards(folder: pathlib.Path) -> dict[str, pa.Table]:
  """Returns the rows of each shard: its index may be learned otherwise."""
  return {
    path.name: lancedb.connect(path).open_table(shards.TABLE).to_arrow()
    for path in shards.list_shards(folder)
  }


def main() -> None:
  """Reads the flags, writes the corpus, measures every number of workers."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--folder", required=True, help="of texts and results; made and removed"
  )
  parser.add_argument("--records", type=int, default=20_000)
  parser.add_argument("--records_per_work", type=int, default=1_000)
  parser.add_argument("--shard_rows", type=int, default=100_000)
  parser.add_argument("--workers", default="1,2", help='"" for none')
  parser.add_argument("--links", action="store_true", help="link works, too")
  parser.add_argument("--encoder", help="folder; tiny, with random weights")
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  folder = pathlib.Path(flags.folder).resolve()
  if folder.exists():
    raise SystemExit(f"error: --folder={folder} exists; name a new one")
  num_works = -(-flags.records // flags.records_per_work)
  try:
    texts = folder / "texts"
    start = time.perf_counter()
    invented_corpus.write_corpus(
      texts, num_works, flags.records_per_work, has_tales=flags.links
    )
    print(
      f"{num_works:,} works of {flags.records_per_work:,} records, written in "
      f"{time.perf_counter() - start:.0f} s"
    )
    encoder = flags.encoder or write_encoder(folder / "tiny", texts)
    runs = {LOCAL: []} | {
      f"{DIRECT} {count}": [f"--runner={DIRECT}", f"--workers={count}"]
      for count in filter(None, flags.workers.split(","))
    }
    print(
      "runner                 mode     seconds  processor  records/s      "
      "MiB  bytes/record  scratch  differ"
    )
    modes = {"corpora": []} | ({"links": ["--links"]} if flags.links else {})
    first, rows = None, []
    for (name, arguments), (mode, options) in itertools.product(
      runs.items(), modes.items()
    ):
      out = folder / name.replace(" ", "-")
      earlier = cost_rows.count_bytes(out)
      cost = run(
        [
          sys.executable,
          "-m",
          "ctd_jax.corpora",
          f"--input={texts}",
          f"--reigns={invented_corpus.REIGNS}",
          "--unit=line",
          f"--encoder={encoder}",
          f"--shard_rows={flags.shard_rows}",
          f"--out={out}",
          *options,
          *arguments,
        ],
        out,
      )
      first = first or out
      corpus = corpus_files.read_corpus_file(out)
      sections, size = corpus.sections, cost_rows.count_bytes(out) - earlier
      # Compared, and told in rows, when all is there.
      is_last = mode == [*modes][-1]
      differing = count_differing(first, out) if is_last else "-"
      print(
        f"{name:<22} {mode:<8} {cost['seconds']:>7.1f} "
        f"{cost['processor']:>10.1f} {sections / cost['seconds']:>10,.0f} "
        f"{cost['bytes'] / 2**20:>8,.0f} {size / sections:>13,.0f} "
        f"{cost['scratch'] / sections:>8,.0f} {differing:>7}",
        flush=True,
      )
      if not is_last:
        continue
      figures = {
        "records": sections,
        "seconds": cost["seconds"],
        "processor": cost["processor"],
        "gibibytes": cost["bytes"] / 2**30,
        "disk": size / 2**30,
        "differ": differing,
        "load": cost_rows.read_load(),
      }
      if corpus.links is not None:
        figures["links"] = corpus.links.links
        figures["scratch"] = cost["scratch"] / 2**30
      rows += cost_rows.make_cost_rows(
        "tests.benchmarks.beam_scale",
        "tales" if flags.links else "invented",
        f"{name}-{flags.records}".replace(" ", "-"),
        mode,
        figures,
        seconds=cost["seconds"],
      )
      cost_rows.write_rows(flags.rows, rows)
  finally:
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
  main()
