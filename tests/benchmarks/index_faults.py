"""Damages an index, stops its builds, fills its disk; counts what is mended.

  OMP_NUM_THREADS=1 python -m tests.benchmarks.index_faults --rows=faults.json

Every file of a small index has a bit flipped, is cut, zeroed or deleted. A try
is good if opening or --check notices it, and if after --repair --check is
clean, the answers are those of the intact index, and all corrections are there.
A bit or zeros that change neither an answer nor anything that is checked are
counted as without effect: SQLite does not use that place of its file.

Builds are killed at random moments; a try is good if the same command, run
again, ends with the same manifest and answers. On a small tmpfs (root only)
the disk is full at several points. `saved_faults` does the like with
checkpoints and data sets.
"""

import argparse
import collections
import dataclasses
import json
import multiprocessing
import pathlib
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from ctd_jax.index import (
  corrections,
  database,
  index_check,
  manifest,
  redating,
  repair,
)
from ctd_jax.index.asking import Index
from ctd_jax.index.corrections import CorrectionStore
from tests.index import corpora

WAYS = FLIP, CUT, ZERO, DELETE = ("bit flipped", "cut", "zeroed", "deleted")
_QUESTIONS = (
  ("泰始元年二月", "time"),
  ("泰始三年", "time"),
  ("擊賊", "words"),
  ("涼州之人", "words"),
  ("泰始四年七月，賊獻白雉於廷。", "passage"),
)
_COPIED = shutil.ignore_patterns("*-wal", "*-shm", ".lock")
_NUM_LINES = 72  # of the annals, two a month
_NUM_FULL = 5  # points at which the disk is full
_KIBIBYTE = 1024


@dataclasses.dataclass(frozen=True)
class Try:
  """What became of one fault."""

  fault: str
  part: str  # of the index, or command
  noticed: str  # opening, check, no effect, or nowhere
  is_good: bool
  detail: str = ""  # why not


def write_sources(folder: pathlib.Path) -> None:
  """Writes annals in order, records with dates, and notes without."""
  annals = folder / "annals.txt"
  corpora.write_annals(annals)
  lines = annals.read_text("utf-8").splitlines(keepends=True)
  annals.write_text("".join(lines[:_NUM_LINES]), "utf-8")
  corpora.write_notes(folder / "notes.txt")
  records = [
    {
      "text": f"{corpora.name_person(year, month)}卒。",
      "start": f"泰始{'元二三'[year - 1]}年{'一二三四五六七八九'[month]}月",
      "source": "register",
      "order": year * 12 + month,
    }
    for year in range(1, 4)
    for month in range(1, 9)
  ]
  corpora.write_beir(folder / "lists", records)
  (folder / "lists" / "metadata.json").write_text(
    json.dumps({"titles": {"register": "卒錄"}})
  )


def build(folder: pathlib.Path, sources: pathlib.Path) -> None:
  """Builds an index of annals and records."""
  corpora.build_index(
    folder,
    sources / "annals.txt",
    sources / "lists",
    reigns="西晉",
    use_passages=True,
  )


def add(
  folder: pathlib.Path, sources: pathlib.Path, encoder: str | None = None
) -> None:
  """Adds the notes, which the model dates."""
  corpora.build_index(
    folder, sources / "notes.txt", use_passages=True, encoder=encoder
  )


def redate(folder: pathlib.Path, sources: pathlib.Path) -> None:
  """Dates the corrected works again."""
  del sources
  redating.redate_index(folder)


def mend(folder: pathlib.Path, sources: pathlib.Path) -> None:
  """Repairs the index."""
  del sources
  repair.repair_index(folder)


def correct(folder: pathlib.Path) -> None:
  """Makes two corrections and undoes one."""
  corpora.correct(folder, "annals", "10", "泰始元年六月", note="晉書")
  corpora.correct(folder, "annals", "20", "泰始元年")
  CorrectionStore(folder).undo(2, "B", "undo")


def make_index(
  folder: pathlib.Path, sources: pathlib.Path, encoder: str | None
) -> None:
  """Makes the index whose files are damaged."""
  build(folder, sources)
  correct(folder)
  redate(folder, sources)
  add(folder, sources, encoder)
  corpora.correct(folder, "notes", "1", "泰始五年")  # still to date
  settle(folder)


def settle(folder: pathlib.Path) -> None:
  """Moves all changes from the logs of SQLite into its files."""
  for connection in (
    database.open_database(folder, readonly=False),
    corrections.connect(folder / corrections.CORRECTIONS_FILE),
  ):
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def list_answers(folder: pathlib.Path) -> str:
  """Returns the answers to the questions, without versions of the index."""
  index = Index.open(folder)
  answers = []
  for question, intent in _QUESTIONS:
    answer = index.ask(question, k=20, intent=intent, why=True).to_dict()
    answers.append({**answer, "versions": None, "asked_at": None})
  text = json.dumps(answers, ensure_ascii=False, sort_keys=True)
  # Citations name the version too.
  return text.replace(index.versions.index_sha256[:12], "")


def copy_index(folder: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
  """Returns a copy of an index in the place of an earlier one."""
  shutil.rmtree(target, ignore_errors=True)
  return shutil.copytree(folder, target, ignore=_COPIED)


def damage(path: pathlib.Path, way: str, draw: random.Random) -> None:
  """Damages a file."""
  content = bytearray(path.read_bytes())
  place = draw.randrange(len(content)) if content else 0
  if way == DELETE:
    path.unlink()
    return
  if way == FLIP and content:
    content[place] ^= 1 << draw.randrange(8)
  elif way == CUT:
    del content[place:]
  else:
    stop = min(place + 512, len(content))
    is_zero = not any(content[place:stop])
    # What is zero already stays whole otherwise.
    start = 0 if is_zero else place
    content[start:stop] = bytes(stop - start)
  path.write_bytes(content)


def try_damage(
  original: pathlib.Path,
  copy: pathlib.Path,
  name: str,
  way: str,
  number: int,
  expected: str,
) -> Try:
  """Damages a file of a copy, has it mended, and compares."""
  copy_index(original, copy)
  damage(copy / name, way, random.Random(f"{name} {way} {number}"))
  noticed, detail = "nowhere", ""
  try:
    Index.open(copy).corrections.active()
  except (ValueError, FileNotFoundError):
    noticed = "opening"
  else:
    try:
      if index_check.check_index(copy):
        noticed = "check"
    except (ValueError, FileNotFoundError):
      noticed = "check"
  try:
    is_harmless = noticed == "nowhere" and list_answers(copy) == expected
    result = repair.repair_index(copy)
    problems = [*result.problems, *index_check.check_index(copy)]
    if problems:
      detail = problems[0]
    elif list_answers(copy) != expected:
      detail = f"other answers; {'; '.join(result.done[-2:])}"
    elif CorrectionStore(copy).history() != CorrectionStore(original).history():
      detail = "corrections lost"
    if is_harmless and name.endswith(".sqlite") and way in (FLIP, ZERO):
      noticed = "no effect"
    elif noticed == "nowhere":
      detail = detail or "not noticed"
  except Exception as error:  # all count
    detail = f"{type(error).__name__}: {error}"
  part = name.split("/")[0]
  return Try(way, part, noticed, not detail, f"{name}: {detail}" * bool(detail))


def run_killed(
  action: Callable[..., None],
  arguments: Sequence[pathlib.Path],
  seconds: float | None,
) -> tuple[float, bool]:
  """Runs an action in a process of its own, and kills it after some time.

  Returns:
    seconds that it took, and whether it was killed.
  """
  context = multiprocessing.get_context("forkserver")
  ready, sender = context.Pipe(duplex=False)
  process = context.Process(target=_run, args=(action, arguments, sender))
  process.start()
  ready.recv()
  started = time.monotonic()
  process.join(seconds)
  if process.exitcode is None:
    process.kill()
    process.join()
  elif process.exitcode:
    raise RuntimeError(f"{action.__name__}: exit status {process.exitcode}")
  return time.monotonic() - started, process.exitcode != 0


def _run(action: Callable[..., None], arguments: Sequence, sender) -> None:
  sender.send(True)
  action(*arguments)


def try_kills(
  work: pathlib.Path, sources: pathlib.Path, number: int
) -> Iterator[Try]:
  """Kills each command at random moments; the same command goes on."""
  built, corrected, damaged = (
    work / name for name in ("built", "corrected", "damaged")
  )
  started = time.monotonic()
  build(built, sources)
  seconds = time.monotonic() - started
  copy_index(built, corrected)
  correct(corrected)
  settle(corrected)
  copy_index(corrected, damaged)
  redate(damaged, sources)
  settle(damaged)
  (damaged / database.DATABASE_FILE).unlink()
  for path in damaged.glob("*/*/months.npy"):
    path.unlink()
  draw = random.Random(0)
  for action, start in (
    (build, None),
    (add, built),
    (redate, corrected),
    (mend, damaged),
  ):
    folder = work / "killed"

    def begin(start=start, folder=folder) -> None:
      shutil.rmtree(folder, ignore_errors=True)
      if start is not None:
        copy_index(start, folder)

    begin()
    if action is build:
      copy_index(built, folder)  # it took `seconds`
    else:
      seconds, _ = run_killed(action, (folder, sources), None)
    expected = (folder / manifest.MANIFEST_FILE).read_text()
    answers = list_answers(folder)
    for _ in range(number):
      begin()
      # From 2 % on: before, nothing has been written.
      moment = seconds * draw.uniform(0.02, 1)
      while not run_killed(action, (folder, sources), moment)[1]:
        moment /= 2  # the machine has less to do than at first
        begin()
      detail = ""
      try:
        action(folder, sources)
        if problems := index_check.check_index(folder):
          detail = problems[0]
        elif (folder / manifest.MANIFEST_FILE).read_text() != expected:
          detail = "another manifest"
        elif list_answers(folder) != answers:
          detail = "other answers"
      except Exception as error:  # all count
        detail = f"{type(error).__name__}: {error}"
      when = f"{moment / seconds:.0%} of {seconds:.2f} s"
      detail = f"{when}: {detail}" * bool(detail)
      yield Try("killed", action.__name__, "", not detail, detail)


def count_bytes(folder: pathlib.Path) -> int:
  """Returns the size of the files in a folder, in whole pages."""
  sizes = (path.stat().st_size for path in folder.rglob("*"))
  return sum(-(-size // 4096) * 4096 for size in sizes)


def try_full_disk(
  work: pathlib.Path, sources: pathlib.Path, num_points: int
) -> Iterator[Try]:
  """Adds a work on a tmpfs that is full after some bytes, and then is not."""
  disk, built = work / "disk", work / "built"
  disk.mkdir(exist_ok=True)
  whole = copy_index(built, work / "whole")
  before = list_answers(whole)
  add(whole, sources)
  expected = list_answers(whole)
  grown = count_bytes(whole) - count_bytes(built)
  for number in range(num_points):
    # Before the first file, and between the files.
    size = count_bytes(built) + 65536 + grown * number // num_points
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size // _KIBIBYTE}k")
    if subprocess.run([*mount, "tmpfs", disk], check=False).returncode:
      return
    try:
      folder = copy_index(built, disk / "index")
      detail = error_text = ""
      try:
        add(folder, sources)
        detail = "the disk was large enough"
      except Exception as error:  # the one that is asked for
        error_text = type(error).__name__
      if not detail and index_check.check_index(folder):
        detail = f"damaged: {index_check.check_index(folder)[0]}"
      elif not detail and list_answers(folder) != before:
        detail = "other answers"
      subprocess.run(["mount", "-o", "remount,size=512m", disk], check=True)
      add(folder, sources)
      if list_answers(folder) != expected or index_check.check_index(folder):
        detail = "not as on a larger disk"
    except Exception as error:  # all count
      detail = f"{type(error).__name__}: {error}"
    finally:
      subprocess.run(["umount", "-l", disk], check=True)
    yield Try("disk full", "add", error_text, not detail, detail)


def make_encoder(folder: pathlib.Path) -> str:
  """Returns a tiny published encoder."""
  from ctd_jax.models.pretrained import vector_settings
  from tests.models import published_folder

  texts = ["賊擊破之。泰始元年春正月，涼州之人也"]
  published_folder.write(folder, texts)
  side = vector_settings.SideSettings("", 40)
  settings = vector_settings.VectorSettings("mean", True, side, side)
  vector_settings.write_vector_settings(folder, settings, 16)
  return str(folder)


def format_table(tries: Sequence[Try]) -> str:
  """Returns a line for every fault and part."""
  groups: dict[tuple[str, str], list[Try]] = collections.defaultdict(list)
  for it in tries:
    groups[it.fault, it.part].append(it)
  lines = [("fault", "part", "tries", "noticed", "mended")]
  for (fault, part), of_group in groups.items():
    counts = collections.Counter(it.noticed for it in of_group if it.noticed)
    noticed = ", ".join(f"{name} {n}" for name, n in counts.items())
    good = sum(it.is_good for it in of_group)
    lines.append((fault, part, str(len(of_group)), noticed, str(good)))
  good = sum(it.is_good for it in tries)
  lines.append(("all", "", str(len(tries)), "", str(good)))
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  return "\n".join(
    "  ".join(
      cell.ljust(width) for cell, width in zip(line, widths, strict=True)
    ).rstrip()
    for line in lines
  )


def run_tries(
  work: pathlib.Path,
  num_kills: int,
  num_places: int,
  is_quick: bool,
) -> Iterator[Try]:
  """Yields all tries.

  Args:
    work: an empty folder.
    num_kills: of each of the four commands.
    num_places: of a bit or zeros in each file of the index's own folder.
    is_quick: whether one file of each part is damaged, in two of the ways.
  """
  sources = work / "sources"
  sources.mkdir()
  write_sources(sources)
  if num_kills:
    # Before the encoder: a process that runs JAX does not fork well.
    yield from try_kills(work, sources, num_kills)
    num_points = 2 if is_quick else _NUM_FULL
    yield from try_full_disk(work, sources, num_points)
  original = work / "original"
  make_index(original, sources, make_encoder(work / "encoder"))
  expected = list_answers(original)
  if problems := index_check.check_index(original):
    raise ValueError(problems[0])
  names = [
    path.relative_to(original).as_posix()
    for path in sorted(original.rglob("*"))
    if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock"))
  ]
  if is_quick:
    names = [*{name.split("/")[0]: name for name in names}.values()]
  for place, name in enumerate(names):
    for way in WAYS[place % 2 :: 2] if is_quick else WAYS:
      is_top = "/" not in name and way in (FLIP, ZERO)
      for number in range(num_places if is_top else 1):
        copy = work / "copy"
        yield try_damage(original, copy, name, way, number, expected)


def main() -> None:
  """Runs all tries and prints the table."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rows", type=pathlib.Path, help="JSON file of tries")
  parser.add_argument("--kills", type=int, default=8, help="of each command")
  parser.add_argument(
    "--places", type=int, default=12, help="in each of the large files"
  )
  parser.add_argument("--quick", action="store_true", help="a few of each")
  arguments = parser.parse_args()
  logging.set_verbosity(logging.ERROR)
  multiprocessing.set_forkserver_preload(["tests.benchmarks.index_faults"])
  started = time.monotonic()
  tries = []
  with tempfile.TemporaryDirectory() as folder:
    kills = 1 if arguments.quick else arguments.kills
    num_places = 1 if arguments.quick else arguments.places
    path = pathlib.Path(folder)
    for it in run_tries(path, kills, num_places, arguments.quick):
      tries.append(it)
      if not it.is_good:
        print(f"{it.fault}, {it.part}: {it.detail}", flush=True)
  print(format_table(tries))
  print(f"{time.monotonic() - started:.0f} s")
  if arguments.rows:
    rows = [dataclasses.asdict(it) for it in tries]
    arguments.rows.write_text(json.dumps(rows, ensure_ascii=False, indent=1))


if __name__ == "__main__":
  main()
