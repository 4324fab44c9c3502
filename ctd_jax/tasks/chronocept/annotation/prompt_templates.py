"""Templates of prompts that ask a language model for texts to annotate.

Two kinds of prompt, as published: `single` asks for one sentence with one
temporal relation, the main axis and one more; `several` asks for several
sentences with two relations and at least four axes, the main one among them.
The wording is ours.

Source: Chronocept, arXiv 2505.07637v1, appendix on generation (content of a
prompt: batches of fifty, present tense, varied pronouns).
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Sequence

BATCH_SIZE = 50  # texts of a prompt, as published

# Definitions of the axes, for the model and for annotators, in the order of
# `samples.AXES`, whose import would register the TFDS builders first.
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
MAIN_AXIS = "main_outcome"
# Relations of Allen's interval algebra, without their inverses.
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
class PromptKind:
  """Requirements and wording of a kind of prompt.

  Attributes:
    num_relations: number of temporal relations.
    min_axes: minimum number of axes, the main one included.
    max_axes: maximum number of axes.
    template: with the fields count, relations and axes.
  """

  num_relations: int
  min_axes: int
  max_axes: int
  template: string.Template


# $shape is replaced here, the other fields by `format_prompt`.
_COMMON_TEMPLATE = """\
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
PROMPT_KINDS = {
  "single": PromptKind(
    1,  # relation
    2,  # axes, at least
    2,  # axes, at most
    string.Template(
      _COMMON_TEMPLATE.replace(
        "$shape", "Each text is one sentence of 13 to 20 words."
      )
    ),
  ),
  "several": PromptKind(
    2,  # relations
    4,  # axes, at least
    len(AXIS_HINTS),
    string.Template(
      _COMMON_TEMPLATE.replace(
        "$shape", "Each text has three to five sentences, 45 to 70 words."
      )
    ),
  ),
}


def format_prompt(
  kind: str,
  relations: Sequence[str],
  axes: Sequence[str],
  count: int = BATCH_SIZE,
) -> str:
  """Returns a prompt.

  Args:
    kind: key of `PROMPT_KINDS`.
    relations: keys of `RELATION_HINTS`, as many as the kind requires.
    axes: keys of `AXIS_HINTS`, `main_outcome` among them.
    count: number of texts.

  Raises:
    ValueError: naming the argument that does not fit the kind.
  """
  prompt_kind = PROMPT_KINDS[kind]
  _check_names("relation", relations, RELATION_HINTS)
  _check_names("axis", axes, AXIS_HINTS)
  if len(relations) != prompt_kind.num_relations:
    raise ValueError(
      f"{kind}: expected {prompt_kind.num_relations} relation(s), got "
      f"{len(relations)}"
    )
  if not prompt_kind.min_axes <= len(axes) <= prompt_kind.max_axes:
    raise ValueError(
      f"{kind}: expected {prompt_kind.min_axes} to {prompt_kind.max_axes} "
      f"axes, got {len(axes)}"
    )
  if MAIN_AXIS not in axes:
    raise ValueError(f"{kind}: {MAIN_AXIS} is not among the axes")
  if count < 1:
    raise ValueError(f"count={count}: expected at least 1")
  return prompt_kind.template.substitute(
    count=count,
    relations=_format_bullets(relations, RELATION_HINTS),
    axes=_format_bullets(axes, AXIS_HINTS),
  )


def _check_names(
  label: str, names: Sequence[str], allowed_names: dict[str, str]
) -> None:
  for name in names:
    if name not in allowed_names:
      raise ValueError(
        f"unknown {label} {name!r}; there are {', '.join(allowed_names)}"
      )
  if len(set(names)) < len(names):
    raise ValueError(f"{label} named twice: {', '.join(names)}")


def _format_bullets(names: Sequence[str], hints: dict[str, str]) -> str:
  return "\n".join(
    f"- {name.replace('_', ' ')}: {hints[name]}" for name in names
  )
