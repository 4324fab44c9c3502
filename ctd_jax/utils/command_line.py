"""Command line of all programs: flags, configs, log lines and user errors.

A config is looked up in the current folder, then among the installed ones. The
log shows this project's lines and everyone's warnings. A user error prints one
line; --verbosity=1 adds the traceback.
"""

import functools
import importlib.util
import json
import logging as std_logging
import os
import pathlib
import re
import select
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from ctd_jax.utils import files, notes

# Environment variable naming a file for the note of an error, so that a parent
# process can show it in another language.
ERROR_FILE_VARIABLE = "CTD_JAX_ERROR_FILE"
_USER_ERRORS = (
  *(ValueError, ConnectionError),
  *(FileNotFoundError, FileExistsError, PermissionError),
)
# In the words of the system, SQLite and NumPy; not all have a number.
_FULL_DISK = (
  *("No space left", "quota exceeded", "disk is full"),
  " requested and ",
)
_NOT_CONFIGS = ("__init__",)
_HELP_FLAGS = frozenset(
  dashes + name
  for dashes in ("-", "--")
  for name in ("help", "helpshort", "helpfull", "h", "?")
)
# How absl reports a missing required flag.
_MISSING_FLAG = re.compile(
  r"flag --\w+=None: Flag (--\w+) must have a value other than None\."
)
_CONFIG_FLAG = re.compile(r"(--?config=)([^:]+)(:.*)?")

ExplainField = Callable[[ml_collections.ConfigDict, str], str]

CONFIG = config_flags.DEFINE_config_file(
  "config",
  help_string="Experiment: configs/NAME.py or configs/NAME.py:METHOD, a path "
  "or an installed config. Override a field with --config.FIELD=VALUE. "
  "Example: --config=configs/small.py:ft --config.seed=1",
  lock_config=True,
)
WORKDIR = flags.DEFINE_string(
  "workdir",
  None,
  "Folder of the run: checkpoints, metrics, run files, journals and tables. "
  "An existing run is resumed. Example: --workdir=runs/tiny",
)


def resolve_config_path(argv: Sequence[str]) -> list[str]:
  """Returns `argv` with missing config paths replaced by installed configs.

  Raises:
    FileNotFoundError: if there is no installed config of that name either.
  """
  argv = list(argv)
  for i, argument in enumerate(argv):
    flag_text = argument
    if argument in ("--config", "-config") and i + 1 < len(argv):
      flag_text = f"--config={argv[i + 1]}"
    match = _CONFIG_FLAG.fullmatch(flag_text)
    if match is None or pathlib.Path(match[2]).exists():
      continue
    # Looked up by name: this module must not import experiments.
    package = importlib.util.find_spec("ctd_jax_configs")
    installed = pathlib.Path(package.submodule_search_locations[0])
    requested_path = pathlib.Path(match[2])
    path = installed / requested_path.name
    # A path in another folder is the user's own, mistyped.
    if str(requested_path.parent) not in (".", "configs") or not path.exists():
      installed_names = sorted(
        p.stem for p in installed.glob("*.py") if p.stem not in _NOT_CONFIGS
      )
      raise FileNotFoundError(
        f"--config={match[2]}: no such file or installed config; expected a "
        f"path or one of {', '.join(installed_names)}"
      )
    if flag_text is argument:
      argv[i] = f"{match[1]}{path}{match[3] or ''}"
    else:
      argv[i + 1] = f"{path}{match[3] or ''}"
  return argv


def config_path() -> str:
  """Returns the value of --config: a path, or path:argument."""
  return config_flags.get_config_filename(flags.FLAGS["config"])


def list_config_overrides(argv: Sequence[str]) -> list[str]:
  """Returns the flags that override fields of the config."""
  overrides = []
  for argument, next_argument in zip(argv, [*argv[1:], ""], strict=True):
    if argument.lstrip("-").startswith("config."):
      overrides.append(argument)
      if "=" not in argument and not next_argument.startswith("-"):
        overrides.append(next_argument)
  return overrides


_MINUS = "\N{MINUS SIGN}"
_NEGATIVE_YEAR = re.compile(r"-(?=\d{4}(?:-\d\d){0,2}\Z)")


def _takes_value(argument: str) -> bool:
  """Whether the argument after a flag is its value."""
  name = argument.removeprefix("--")
  return (
    name != argument and name in flags.FLAGS and not (flags.FLAGS[name].boolean)
  )


def parse_flags(argv: Sequence[str]) -> list[str]:
  """Returns the arguments that are not flags; --help exits with status 0."""
  for argument in argv:
    try:
      argument.encode()
    except UnicodeEncodeError:
      raise ValueError(
        f"{files.printable_name(argument)}: not UTF-8; rename the file or "
        "folder"
      ) from None
  # "-0476" is a year and no flag, unless it is the value of one.
  values = [
    argument if _takes_value(before) else _NEGATIVE_YEAR.sub(_MINUS, argument)
    for before, argument in zip(["", *argv], argv, strict=False)
  ]
  try:
    rest = flags.FLAGS(values)
    return [re.sub(f"^{_MINUS}", "-", argument) for argument in rest]
  except SystemExit as end:
    if _HELP_FLAGS.intersection(argv):
      sys.exit(0)
    raise end


def run_app(main: Callable[[list[str]], None]) -> None:
  """Runs `main` like `app.run`; a bad flag prints one line."""

  def parse(argv: Sequence[str]) -> list[str]:
    try:
      return parse_flags(argv)
    except (flags.Error, ValueError) as error:
      text = _MISSING_FLAG.sub(r"\1 is missing, see --help", str(error))
      sys.exit("error: " + "; ".join(text.splitlines()))

  app.run(main, flags_parser=parse)


def exit_with_error(error: object, status: int = 1) -> NoReturn:
  """Ends the program with one line on standard error."""
  note = notes.of_error(error) if isinstance(error, Exception) else error
  path = os.environ.get(ERROR_FILE_VARIABLE)
  if path and isinstance(note, notes.Note):
    pathlib.Path(path).write_text(json.dumps(note.to_json()), "utf-8")
  text = f"error: {notes.show_controls(str(error))}"
  if status == 1:
    sys.exit(text)
  print(text, file=sys.stderr)
  sys.exit(status)


def _parse(
  argv: Sequence[str],
  required: Sequence[str],
  explain_field: ExplainField | None = None,
  error_status: int = 1,
) -> list[str]:
  """Parses flags; a bad flag, config or override prints one line."""
  for name in required:
    flags.register_validator(
      name,
      lambda value: value is not None,
      message=f"--{name} is missing, see --help",
    )
  try:
    return parse_flags(resolve_config_path(argv))
  except (AttributeError, KeyError) as error:
    exit_with_error(
      _unknown_field(argv, str(error), explain_field), error_status
    )
  except (TypeError, *_USER_ERRORS) as error:
    exit_with_error(error, error_status)
  except flags.Error as error:
    exit_with_error(_format_flag_error(error), error_status)


def _format_flag_error(error: flags.Error) -> str:
  """Returns the problem with a flag, in one line."""
  text = str(error).strip()
  # ml_collections quotes the traceback of a config that raises.
  if "Traceback" in text:
    text = text.splitlines()[-1].partition(": ")[2]
  # absl puts "flag --config=None: " before the message of a validator.
  text = re.sub(r"^flag --\w+=None: (?=--)", "", text, flags=re.MULTILINE)
  return "; ".join(text.splitlines())


def _unknown_field(
  argv: Sequence[str], message: str, explain_field: ExplainField | None
) -> str:
  """Returns the message about an override of an unknown field."""
  for argument in argv:
    flag_name = argument.lstrip("-").partition("=")[0]
    field = flag_name.removeprefix("config.")
    # The message quotes the first name of the path that is missing.
    if field != flag_name and any(n in message for n in field.split(".")):
      hint = ""
      if explain_field:
        config_flag = _find_config_flag(resolve_config_path(argv))
        hint = explain_field(read_config(config_flag), field)
      return f"--{flag_name}: the config has no such field" + hint
  return message


def _find_config_flag(argv: Sequence[str]) -> str:
  """Returns the value of --config in a command line, or ""."""
  value = ""
  for argument, next_argument in zip(argv, [*argv[1:], ""], strict=True):
    if argument in ("--config", "-config"):
      value = next_argument
    elif _CONFIG_FLAG.fullmatch(argument):
      value = argument.partition("=")[2]
  return value


def read_config(
  config: str, overrides: Sequence[str] = ()
) -> ml_collections.ConfigDict:
  """Returns a config as --config and its overrides would give it.

  Args:
    config: value of --config, with an existing path.
    overrides: --config.FIELD=VALUE arguments.

  Raises:
    ValueError: if a value has the wrong type.
  """
  values = flags.FlagValues()
  argv = ["", f"--config={config}", *overrides]
  # ml_collections looks for overrides in the arguments of the process.
  config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
  try:
    values(argv)
  except flags.Error as error:
    raise ValueError(_format_flag_error(error)) from None
  except TypeError as error:
    raise ValueError(str(error)) from None
  return values["config"].value


def _is_own_or_warning(record: std_logging.LogRecord) -> bool:
  """Keeps our own lines and all warnings; orbax is talkative."""
  package_prefix = str(pathlib.Path(__file__).resolve().parents[1]) + os.sep
  return record.levelno >= std_logging.WARNING or record.pathname.startswith(
    package_prefix
  )


def start_logging() -> None:
  """Sets up logging as `run_main` does, for a process without a main."""
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # or absl warns that they are not
  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().addFilter(_is_own_or_warning)


def _close_unread_output() -> bool:
  """Returns whether nobody reads the output, as in `ask ... | head`."""
  descriptor = sys.stdout.fileno()
  poll = select.poll()
  poll.register(descriptor, 0)  # errors are always reported
  if not any(event & select.POLLERR for _, event in poll.poll(0)):
    return False  # another pipe is broken
  # The interpreter would flush again at exit.
  os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
  return True


def run_main(
  main: Callable[..., int | None],
  required: Sequence[str] = ("config", "workdir"),
  explain_field: ExplainField | None = None,
  takes_arguments: bool = False,
  error_status: int = 1,
) -> None:
  """Parses flags, runs `main` and exits.

  Args:
    main: returns the exit status, None for success; takes the arguments that
      are not flags if `takes_arguments`.
    required: flags that must be given.
    explain_field: (config, unknown dotted field) -> a hint, after a semicolon.
    takes_arguments: allows arguments that are not flags, before or after flags.
    error_status: exit status after a user error.
  """

  def main_with_errors(argv: Sequence[str]) -> None:
    if len(argv) > 1 and not takes_arguments:
      exit_with_error(
        f"unexpected arguments: {' '.join(argv[1:])}", error_status
      )
    logging.get_absl_handler().addFilter(_is_own_or_warning)
    try:
      status = main(*([argv[1:]] if takes_arguments else []))
      sys.stdout.flush()
    except BrokenPipeError as error:
      if not _close_unread_output():
        exit_with_error(error, error_status)
      status = None
    except _USER_ERRORS as error:
      logging.debug("traceback", exc_info=True)
      exit_with_error(error, error_status)
    except (OSError, sqlite3.OperationalError) as error:
      if not any(words in str(error) for words in _FULL_DISK):
        raise
      exit_with_error(
        f"the disk is full ({error}); make room and run the command again",
        error_status,
      )
    if status:
      sys.exit(status)

  flags.FLAGS.set_default("verbosity", logging.INFO)
  flags.FLAGS.set_gnu_getopt(takes_arguments)
  parser = functools.partial(
    _parse,
    required=required,
    explain_field=explain_field,
    error_status=error_status,
  )
  app.run(main_with_errors, flags_parser=parser)
