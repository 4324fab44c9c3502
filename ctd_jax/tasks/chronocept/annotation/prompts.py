"""Prompts that ask a language model for texts to annotate.

  python -m ctd_jax.tasks.chronocept.annotation.prompts --kind=single --relation=before
  python -m ctd_jax.tasks.chronocept.annotation.prompts --kind=several --relation=before \\
    --relation=during --axes=main_outcome,intention,opinion,negation

Why: texts of a benchmark should be asked for in words that are kept. Two kinds
as published: `single`, one sentence with one temporal relation, the main axis
and one more; `several`, sentences with two relations and four axes or more,
the main one among them. The wording is ours.

Source: Chronocept, arXiv 2505.07637v1, appendix on generation (what a prompt
asks for: batches of fifty, present tense, changing pronouns).
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Sequence

from absl import flags

from ctd_jax.utils import command_line
from ctd_jax_datasets.chronocept.samples import AXES

BATCH = 50  # texts that one prompt asks for

# What each axis holds, for the model and for annotators.
AXIS_HINTS = {
  "main_outcome": "what happens; every text has it",
  "static": "a state that simply holds",
  "generic": "what is true of a kind of thing in general",
  "hypothetical": "what would happen under a condition",
  "negation": "what does not happen",
  "intention": "what somebody means or plans to do",
  "opinion": "what somebody thinks or feels about it",
  "recurrent": "what happens again and again",
}
RELATION_HINTS = {
  "before": "one event ends before the other begins",
  "meets": "one event ends just as the other begins",
  "overlaps": "one event is still going on when the other begins",
  "during": "one event lies within the other",
  "starts": "both events begin together",
  "finishes": "both events end together",
  "equals": "both events begin and end together",
}


@dataclasses.dataclass(frozen=True)
class Kind:
  """What a prompt of one kind must be told.

  Attributes:
    relations: how many temporal relations.
    least_axes: how many axes at least, with the main one.
    most_axes: how many at most.
    template: the wording.
  """

  relations: int
  least_axes: int
  most_axes: int
  template: string.Template


_COMMON = """\
Write $count texts in English for a study of how long statements stay true.
$shape
Each text must show:
$relations
Each text must have a part for every one of these:
$axes
Write in the present tense. Name no date and no year; let the events themselves
tell whether they take minutes, hours, days or longer, and vary that. Change
subjects and pronouns from text to text; repeat no plot.
Number the texts from 1 to $count, one to a line, and write nothing else."""
KINDS = {
  "single": Kind(
    1,
    2,
    2,
    string.Template(
      _COMMON.replace("$shape", "Each text is one sentence of 13 to 20 words.")
    ),
  ),
  "several": Kind(
    2,
    4,
    len(AXES),
    string.Template(
      _COMMON.replace(
        "$shape", "Each text has three to five sentences, 45 to 70 words."
      )
    ),
  ),
}


def fill(
  kind: str,
  relations: Sequence[str],
  axes: Sequence[str],
  count: int = BATCH,
) -> str:
  """Returns a prompt.

  Args:
    kind: key of `KINDS`.
    relations: keys of `RELATION_HINTS`, as many as the kind takes.
    axes: keys of `AXIS_HINTS`, `main_outcome` among them.
    count: texts asked for.

  Raises:
    ValueError: naming what does not fit the kind.
  """
  wanted = KINDS[kind]
  _check("relation", relations, RELATION_HINTS)
  _check("axis", axes, AXIS_HINTS)
  if len(relations) != wanted.relations:
    raise ValueError(
      f"{kind}: expected {wanted.relations} relation(s), got {len(relations)}"
    )
  if not wanted.least_axes <= len(axes) <= wanted.most_axes:
    raise ValueError(
      f"{kind}: expected {wanted.least_axes} to {wanted.most_axes} axes, got "
      f"{len(axes)}"
    )
  if AXES[0] not in axes:
    raise ValueError(f"{kind}: {AXES[0]} is not among the axes")
  if count < 1:
    raise ValueError(f"count={count}: expected at least 1")
  return wanted.template.substitute(
    count=count,
    relations=_bullets(relations, RELATION_HINTS),
    axes=_bullets(axes, AXIS_HINTS),
  )


def _check(what: str, given: Sequence[str], known: dict[str, str]) -> None:
  for name in given:
    if name not in known:
      raise ValueError(f"unknown {what} {name!r}; there are {', '.join(known)}")
  if len(set(given)) < len(given):
    raise ValueError(f"{what} named twice: {', '.join(given)}")


def _bullets(names: Sequence[str], hints: dict[str, str]) -> str:
  return "\n".join(
    f"- {name.replace('_', ' ')}: {hints[name]}" for name in names
  )


def main() -> None:
  """Prints the prompt that the flags ask for."""
  values = flags.FLAGS
  print(fill(values.kind, values.relation, values.axes, values.count))


if __name__ == "__main__":
  flags.DEFINE_enum(
    "kind",
    "single",
    sorted(KINDS),
    "One sentence, or several. Example: --kind=single",
  )
  flags.DEFINE_multi_string(
    "relation",
    ["before"],
    f"Temporal relation, once or twice: {', '.join(RELATION_HINTS)}. Example: "
    "--relation=before",
  )
  flags.DEFINE_list(
    "axes",
    ["main_outcome", "intention"],
    f"Axes: {', '.join(AXES)}. Example: --axes=main_outcome,static",
  )
  flags.DEFINE_integer("count", BATCH, "Texts asked for. Example: --count=50")
  command_line.run(main, required=())
