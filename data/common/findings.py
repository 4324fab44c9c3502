"""Findings: oddities of somebody else's files, counted and located.

A benchmark that people put together has months that occur twice, ids that
repeat and answers that do not exist. A reader has to decide what such a case
means; every decision is counted here, so that none is silent.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

NOTE, RESOLVED, DROPPED = "note", "resolved", "dropped"
MAX_EXAMPLES = 5  # of a code
_MAX_EXAMPLE_CHARS = 160  # two lines of a terminal


@dataclasses.dataclass(frozen=True)
class CodeMeaning:
  """Meaning of a code.

  Attributes:
    level: NOTE if nothing was changed; RESOLVED if the files contradict
      themselves or lack a value and a rule decided; DROPPED if an entry of the
      files was left out.
    text: one sentence.
  """

  level: str
  text: str


@dataclasses.dataclass(frozen=True)
class Finding:
  """One kind of oddity.

  Attributes:
    code: of its meaning.
    level: of its meaning.
    count: how often.
    examples: the first locations, each with its value.
    meaning: in words.
  """

  code: str
  level: str
  count: int
  examples: tuple[str, ...]
  meaning: str


class FindingsReport:
  """Collector of findings, with a few counts to read beside them.

  Attributes:
    facts: name -> count or yes and no.
  """

  def __init__(self, meanings: Mapping[str, CodeMeaning]):
    """Starts without findings.

    Args:
      meanings: code -> meaning, in the order of the report.
    """
    self._meanings = meanings
    self._counts: collections.Counter[str] = collections.Counter()
    self._examples = collections.defaultdict(list)
    self.facts: dict[str, int | bool] = {}

  def add(self, code: str, location: str, detail: object = "") -> None:
    """Counts one case.

    Args:
      code: one of the meanings.
      location: JSON path, line or file.
      detail: the value at that location.

    Raises:
      KeyError: if `code` has no meaning.
    """
    self._meanings[code]  # raises for a code that is not declared
    self._counts[code] += 1
    if self._counts[code] <= MAX_EXAMPLES:
      example = f"{location}: {detail}" if detail != "" else location
      if len(example) > _MAX_EXAMPLE_CHARS:
        example = example[: _MAX_EXAMPLE_CHARS - 1] + "…"
      self._examples[code].append(example)

  @property
  def findings(self) -> tuple[Finding, ...]:
    """Every code that occurred, in the order of the meanings."""
    return tuple(
      Finding(
        code,
        meaning.level,
        self._counts[code],
        tuple(self._examples[code]),
        meaning.text,
      )
      for code, meaning in self._meanings.items()
      if self._counts[code]
    )

  def count(self, code: str) -> int:
    """Returns how often `code` occurred."""
    return self._counts[code]

  def to_json(self) -> dict[str, Any]:
    """Returns facts and findings, ready for JSON."""
    return {
      "facts": dict(self.facts),
      "findings": [
        dataclasses.asdict(finding) | {"examples": list(finding.examples)}
        for finding in self.findings
      ],
    }

  def format_table(self) -> str:
    """Returns the facts and findings as lines of text."""
    lines = [f"{name}: {value}" for name, value in self.facts.items()]
    if not self.findings:
      return "\n".join([*lines, "no findings"])
    width = max(len(finding.code) for finding in self.findings)
    for finding in self.findings:
      head = f"{finding.count:>7}  {finding.level:<8}  {finding.code:<{width}}"
      lines.append(f"{head}  {finding.meaning}")
      lines += [f"{'':>19}e.g. {example}" for example in finding.examples[:2]]
    return "\n".join(lines)
