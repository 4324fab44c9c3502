"""Builds the index of a corpus: one folder that answers questions about time.

  python -m ctd_jax.index --index=annals --add=chunqiutr/mini
  python -m ctd_jax.index --index=song --add=changbian,jishi.txt --reigns=宋
  python -m ctd_jax.index --index=song --add=biji/ --undated=biji
  python -m ctd_jax.index --index=song --add='texts/*' --reigns=zh --workers=4
  python -m ctd_jax.index --index=song --encoder=exported
  python -m ctd_jax.index --index=song --correct=mine.csv --redate --dry_run
  python -m ctd_jax.index --index=song --correct=mine.csv --redate
  python -m ctd_jax.index --index=song --corrections=song.csv
  python -m ctd_jax.index --index=song --check
  python -m ctd_jax.index --index=song --repair
  python -m ctd_jax.index --index=song --backup=song.zip
  python -m ctd_jax.index --index=song.new --restore=song.zip

--add takes a built data set (chunqiutr/mini), a folder in BEIR format
(beir:FOLDER), a text, or a folder of texts (plain, Markdown, TEI or Kanripo).
Separate several with commas or repeat the flag. Plain files in one folder are
parts of one work; --add='texts/*' adds each as its own work. Adding a work
again replaces it if it has changed.

--reigns=lu,tongjian makes an index of several tables. Each text is dated by the
one whose reigns it prints; --add=TEXT:reigns=lu names another.

Each work is dated in one of three ways:

  keys    its data set gives the months (`metadata.start` and `end` in BEIR)
  order   it prints dates and runs forward in time, so it is decoded as a
          chronicle and cut into records where it prints a date
  model   anything else (commentaries, notes, biographies) is dated by words,
          citations and parallels, learned from records with certain dates

The default is keys if all records have them, order if the work prints years
and dates, and otherwise model. --order=NAME and --undated=NAME override this.

--encoder=FOLDER also makes a vector of every record, so that questions find
records by meaning. FOLDER is a trained run (its workdir or a ctd_jax.export of
it) or a published encoder. The index keeps the vectors and the encoder's path.

Corrections come from the pages of `ctd-jax serve` or from --correct=FILE. They
count as certain whenever their work is dated; a correction whose records are
gone or have changed is left out and reported. --redate dates works again if
their corrections have changed, and lists the records that moved; their sources
must be unchanged. With --dry_run it tries that on a copy, together with
--correct and --undo, and the index stays as it is.
--corrections=FILE exports them: .tsv for --fixed, .csv and .jsonl with the
full history, .xml as TEI. --undo undoes corrections by number.

--runner spreads reading, dating and encoding over processes or machines with
Apache Beam (pip install 'ctd_jax[beam]'). Workers must see the same paths.
Beam's own flags follow after --. The index has the same bytes either way.

--repair makes again what --check finds damaged, from the sources, and keeps
corrections and uploads. --backup=FILE saves what cannot be made again in one
archive; --restore=FILE makes an index from it, in a new folder.

A build that is stopped leaves the index as it was. Run the same command again
to continue: finished works and vectors are kept.
"""

import glob
import os
import pathlib
from collections.abc import Sequence

import msgspec
from absl import flags

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.utils import beam, command_line, files
from ctd_jax.utils.notes import Note

_FLAGS_OF_ADDING = (
  "add",
  "remove",
  "reigns",
  "unit",
  "columns",
  "order",
  "undated",
  "hide",
  "fixed",
  "data_dir",
  "encoder",
  "passages",
  "runner",
  "workers",
)
_FLAGS_WITHOUT_BUILD = (
  *("check", "list", "corrections", "correct", "undo"),
  *("repair", "backup", "restore"),
)


def main(runner_arguments: Sequence[str]) -> None:
  """Builds, corrects, checks or lists the index of --index."""
  folder = _find_path(flags.FLAGS.index)
  if not flags.FLAGS.dry_run:
    _change(folder, runner_arguments)
    return
  _check_alone("dry_run")
  if not flags.FLAGS.redate:
    raise ValueError("--dry_run: expected --redate too, whose changes it shows")
  from ctd_jax.index import redating

  files.check_tree(folder)
  with redating.copy_index(folder) as copy:
    _change(copy, runner_arguments)
  print(f"{folder}: nothing was changed")


def _change(folder: pathlib.Path, runner_arguments: Sequence[str]) -> None:
  """Does what the flags ask for, in the index of a folder."""
  # Here and not above: --help needs no JAX.
  from ctd_jax.index import (
    correction_files,
    index_check,
    manifest,
    passage_answers,
  )

  values = flags.FLAGS
  if folder.is_dir():
    files.check_tree(folder)  # before anything is written there
  result, problems = None, []
  for name in ("restore", "repair"):
    if values[name].value:
      _check_alone(name)
      _mend(name, folder)
  if values.backup:
    _check_alone("backup")
    print(_back_up(folder))
  if values.undo:
    _check_alone("undo")
    correction_files.undo_corrections(folder, values.undo)
    print(f"{folder}: corrections undone {len(values.undo):,}")
  if values.correct:
    _check_alone("correct")
    table = pathlib.Path(values.correct).expanduser()
    imported = correction_files.import_corrections(folder, table)
    print(f"{table}: {imported}")
    problems += imported.refused
  if values.redate:
    from ctd_jax.index import date_changes, redating

    _check_alone("redate")
    changes = values.changes and pathlib.Path(values.changes).expanduser()
    if changes:
      date_changes.check_path(changes)
    redated = redating.redate_index(folder)
    result = redated.build
    report = msgspec.structs.replace(redated.report, is_dry=values.dry_run)
    if result is not None:
      print(date_changes.format_changes(report), end="")
    if changes:
      date_changes.write_changes(report, changes)
    problems += redated.problems
    if result is None and not redated.problems:
      print(f"{folder}: the dates of every work include its corrections")
  elif values.add or values.remove or values.encoder:
    from ctd_jax.index.building import index_builder, staged_works
    from ctd_jax.index.building.group_dating import DatingChoices

    works = folder / staged_works.WORKS_FOLDER
    options = index_builder.BuildOptions(
      reigns=values.reigns,
      unit=values.unit,
      columns=values.columns,
      hidden_splits=tuple(values.hide),
      data_dir=values.data_dir,
      use_passages=values.passages,
      encoder=values.encoder,
      choices=DatingChoices(
        in_order=tuple(values.order),
        undated=tuple(values.undated),
        fixed=_find_path(values.fixed) if values.fixed else None,
      ),
      map_items=beam.read_flags(runner_arguments, works),
    )
    names = [name for argument in values.add for name in _split(argument)]
    result = index_builder.build_index(folder, names, options, values.remove)
  elif not any(flags.FLAGS[name].value for name in _FLAGS_WITHOUT_BUILD):
    raise ValueError(
      "nothing to do; add works with --add=..., make vectors with "
      "--encoder=..., correct dates with --correct=..., date corrected works "
      "again with --redate, save corrections with --corrections=..., verify "
      "the index with --check, mend it with --repair, save it with "
      "--backup=..., or list its works with --list"
    )
  if values.check:
    damage = index_check.check_index(folder)
    if damage:
      advice = manifest.describe_repair(folder)
      raise ValueError("\n  ".join([f"{folder} is damaged:", *damage, advice]))
    print(f"{folder}: every file, row and hash is intact")
    for note in passage_answers.note_unseen(manifest.read_manifest(folder)):
      print(note)
  if values.list or (result is not None and not values.dry_run):
    print(index_check.format_summary(folder, result))
  if values.corrections:
    target = pathlib.Path(values.corrections).expanduser()
    print(correction_files.write_corrections(folder, target))
  if problems:
    lines = [Note("note.line", start="\n  ", problem=it) for it in problems]
    raise ValueError(Note("problem.build.not_all", problems=lines))


def _mend(name: str, folder: pathlib.Path) -> None:
  """Repairs or restores an index, and says what was done."""
  from ctd_jax.index import backup, repair

  if name == "repair":
    mended = repair.repair_index(folder)
  else:
    path = pathlib.Path(flags.FLAGS.restore).expanduser()
    mended = backup.restore_index(path, folder)
  print("\n".join(mended.done or (f"{folder}: nothing to mend",)))
  if mended.problems:
    raise ValueError(
      "\n  ".join([f"{folder}: not all was mended:", *mended.problems])
    )


def _back_up(folder: pathlib.Path) -> str:
  """Writes the backup; returns a report in words."""
  from ctd_jax.index import backup

  path = pathlib.Path(flags.FLAGS.backup).expanduser()
  written = backup.write_backup(folder, path)
  lines = [
    f"{path}: written, files {written.num_members:,}, bytes "
    f"{written.num_bytes:,}",
    *written.notes,
  ]
  return "\n  ".join(lines)


def _check_alone(name: str) -> None:
  """Raises ValueError if flags of a build are set too."""
  others = [
    f"--{name}" for name in _FLAGS_OF_ADDING if flags.FLAGS[name].present
  ]
  if others:
    raise ValueError(
      f"--{name} takes the works as they are; leave out {', '.join(others)}"
    )


def _find_path(value: str) -> pathlib.Path:
  """Returns a flag's path; absolute with --runner, as workers need it."""
  path = pathlib.Path(value).expanduser()
  return path if flags.FLAGS.runner == beam.LOCAL else path.absolute()


def _split(argument: str) -> list[str]:
  """Returns the sources in one --add value; names may hold commas and *."""
  # The mark may follow each of several.
  name, _, _ = f"{argument}:reigns=".partition(":reigns=")
  rest = argument.removeprefix(name)
  if "," not in rest and pathlib.Path(name).expanduser().exists():
    return [argument]
  sources = []
  for part in filter(None, map(str.strip, argument.split(","))):
    name, *reigns = part.partition(":reigns=")
    path = os.path.expanduser(name)
    matches = [] if os.path.exists(path) else sorted(glob.glob(path))
    sources += ["".join((match, *reigns)) for match in matches or [name]]
  return sources


if __name__ == "__main__":
  flags.DEFINE_string(
    "index",
    None,
    "Folder of the index; created if it does not exist. Example: "
    "--index=annals",
  )
  flags.DEFINE_multi_string(
    "add",
    [],
    "Add data sets, BEIR folders (beir:FOLDER), texts or folders of texts. "
    "Separate several with commas, use a pattern, or repeat the flag. "
    "SOURCE:reigns=NAME names the calendar of its works, one of the index. "
    "Example: --add=chunqiutr/mini",
  )
  flags.DEFINE_list(
    "remove",
    [],
    "Remove works, by name or by the source they were added from. Example: "
    "--remove=KR2b0019",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Calendars of a new index, separated by commas: polities (遼,宋,金), zh, "
    "ja, ko, vi or all; reign tables (TSV); installed tables "
    f"({', '.join(chronicle_input.list_installed_tables())}); or CE or "
    "CE:700-1160 alone. In an old index: those of the works added. Default: "
    "the calendar of the data set. Example: --reigns=宋",
  )
  flags.DEFINE_enum(
    "unit",
    None,
    chronicle_input.UNITS,
    "Make each line or each paragraph of plain text a record. Default: "
    "detected from the text. Example: --unit=paragraph",
  )
  chronicle_input.define_columns_flag()
  flags.DEFINE_list(
    "order",
    [],
    "Date these works by the order of their entries. Default: works that "
    "print years and dates. Example: --order=chunqiutr/rebuilt",
  )
  flags.DEFINE_list(
    "undated",
    [],
    "Date these works by their words and parallels, not by order. Default: "
    "works that print few dates. Example: --undated=notes",
  )
  flags.DEFINE_list(
    "hide",
    [],
    "Ignore the known months of these splits of a data set, and date their "
    "records instead. Default: none. Example: --hide=validation,test",
  )
  flags.DEFINE_string(
    "fixed",
    None,
    "Table of corrected dates for the one text that you add, in the format of "
    "ctd_jax.date. Default: none. Example: --fixed=fixed.tsv",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of the built data sets. Default: the folder of TFDS. Example: "
    "--data_dir=~/datasets",
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Make a vector of every record, so that questions also find records by "
    "meaning: a run (workdir or export), or a published encoder (folder or hub "
    "id); none removes the vectors. Default: the index's own encoder, if any. "
    "Example: --encoder=exported",
  )
  flags.DEFINE_bool(
    "passages",
    True,
    "Learn from the records how to date passages that are not in the index. "
    "This takes time, and a third of the folder's size. Default: on. Example: "
    "--nopassages",
  )
  flags.DEFINE_bool(
    "redate",
    False,
    "Date works again if their corrections have changed, from the sources they "
    "were added from. Example: --redate",
  )
  flags.DEFINE_bool(
    "dry_run",
    False,
    "With --redate: say what would change, and change nothing. Example: "
    "--correct=mine.csv --redate --dry_run",
  )
  flags.DEFINE_string(
    "changes",
    None,
    "With --redate: save all changed records to a file, .csv, .tsv or .json. "
    "Example: --redate --changes=changes.csv",
  )
  flags.DEFINE_string(
    "correct",
    None,
    "Table of corrections to make (CSV or tabs) with the columns work, "
    "first_record and date; last_record, name and note are optional. Example: "
    "--correct=mine.csv --redate",
  )
  flags.DEFINE_list(
    "undo",
    [],
    "Undo corrections by number. Example: --undo=3 --redate",
  )
  flags.DEFINE_string(
    "corrections",
    None,
    "Save the corrections to a file: .tsv for --fixed, one file per text, or "
    ".csv, .jsonl or .xml. Example: --corrections=song.csv",
  )
  flags.DEFINE_bool(
    "check",
    False,
    "Verify files, hashes and rows, and report any damage. Example: --check",
  )
  flags.DEFINE_bool(
    "repair",
    False,
    "Mend a damaged index: keep corrections, uploads and what is intact, and "
    "make the rest again from the sources. Example: --repair",
  )
  flags.DEFINE_string(
    "backup",
    None,
    "Save corrections, uploads, sources and records to a new zip archive; a "
    "server may be running. Example: --backup=song.zip",
  )
  flags.DEFINE_string(
    "restore",
    None,
    "Make the index of --index, a new folder, from a backup. Example: "
    "--restore=song.zip --index=song.new",
  )
  flags.DEFINE_bool("list", False, "List the works. Example: --list")
  beam.define_flags()
  flags.adopt_module_key_flags(beam)  # shown by --help
  command_line.run_main(main, required=("index",), takes_arguments=True)
