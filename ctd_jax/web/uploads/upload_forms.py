"""Forms of uploads: settings that they give, and arguments of the build."""

from __future__ import annotations

import csv
import io
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import FormData

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.web.errors import PageError
from ctd_jax.web.uploads.upload_store import UploadSettings

ORDER, UNDATED = "order", "undated"
_MAX_REIGNS = 200
# Polities, countries, CE:700-1160; no paths.
_REIGNS = re.compile(r"[\w ,:\-()（）、]*")


def list_arguments(
  source: str,
  settings: UploadSettings,
  preview: dict[str, Any],
  has_index: bool = True,
) -> list[str]:
  """Returns the arguments of `ctd-jax index` that build an upload.

  Args:
    source: as of --add.
    settings: how it is read and dated.
    preview: of it.
    has_index: whether there is one, which has a calendar.
  """
  arguments = [f"--add={source}"]
  if settings.unit:
    arguments.append(f"--unit={settings.unit}")
  if settings.reigns and not has_index:
    arguments.append(f"--reigns={settings.reigns}")
  names = {work["name"] for work in preview["works"]}
  for flag, chosen in ((ORDER, settings.in_order), (UNDATED, settings.undated)):
    chosen = [name for name in chosen if name in names]
    if chosen:
      arguments.append(f"--{flag}={_join(chosen)}")
  return arguments


def _join(names: Sequence[str]) -> str:
  """Returns names as a flag takes them, whatever is in them."""
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(names)
  return line.getvalue()


def read_settings(form: FormData) -> UploadSettings:
  """Returns how an upload is to be read, by the fields of a form.

  Args:
    form: as it was sent.

  Raises:
    PageError: 422, naming the field.
  """
  unit = read_choice(form, "unit", chronicle_input.UNITS)
  reigns = read_field(form, "reigns", _MAX_REIGNS).replace("、", ",")
  # A file in the folder of the server is not for readers.
  if not _REIGNS.fullmatch(reigns) or pathlib.Path(reigns).is_file():
    raise PageError(
      422,
      "error.parameter",
      {
        "name": "reigns",
        "value": reigns[:40],
        "expected": "宋; zh; CE:700-1160",
      },
    )
  manners = {ORDER: [], UNDATED: []}
  for field, value in form.items():
    if field.startswith("manner.") and value in manners:
      manners[value].append(field.removeprefix("manner."))
  return UploadSettings(
    unit=unit,
    reigns=reigns,
    in_order=tuple(manners[ORDER]),
    undated=tuple(manners[UNDATED]),
  )


def read_choice(form: FormData, name: str, choices: Sequence[str]) -> str:
  """Returns a field that has one of some values, or "".

  Args:
    form: as it was sent.
    name: of the field.
    choices: its values.

  Raises:
    PageError: 422, if it has another.
  """
  value = read_field(form, name, 20)
  if value and value not in choices:
    raise PageError(
      422,
      "error.parameter",
      {"name": name, "value": value, "expected": ", ".join(choices)},
    )
  return value


def read_field(form: FormData, name: str, limit: int) -> str:
  """Returns a field without blanks around it; "" if it is not there.

  Args:
    form: as it was sent.
    name: of the field.
    limit: characters that it may have.

  Raises:
    PageError: 422, if it has more.
  """
  value = form.get(name, "")
  value = value.strip() if isinstance(value, str) else ""
  if len(value) > limit:
    raise PageError(
      422, "error.field", {"name": name, "length": len(value), "limit": limit}
    )
  return value
