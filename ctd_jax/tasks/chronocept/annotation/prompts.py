"""Command that prints a prompt for texts to annotate.

  python -m ctd_jax.tasks.chronocept.annotation.prompts --kind=single \\
    --relation=before
  python -m ctd_jax.tasks.chronocept.annotation.prompts --kind=several \\
    --relation=before --relation=during \\
    --axes=main_outcome,intention,opinion,negation

The kinds are described in `prompt_templates`.
"""

from __future__ import annotations

from absl import flags

from ctd_jax.tasks.chronocept.annotation import prompt_templates
from ctd_jax.utils import command_line


def main() -> None:
  """Prints the prompt that the flags describe."""
  values = flags.FLAGS
  print(
    prompt_templates.format_prompt(
      values.kind, values.relation, values.axes, values.count
    )
  )


if __name__ == "__main__":
  flags.DEFINE_enum(
    "kind",
    "single",
    sorted(prompt_templates.PROMPT_KINDS),
    "One sentence, or several. Example: --kind=single",
  )
  flags.DEFINE_multi_string(
    "relation",
    ["before"],
    "Temporal relation, once or twice: "
    f"{', '.join(prompt_templates.RELATION_HINTS)}. Example: "
    "--relation=before",
  )
  flags.DEFINE_list(
    "axes",
    ["main_outcome", "intention"],
    f"Axes: {', '.join(prompt_templates.AXIS_HINTS)}. Example: "
    "--axes=main_outcome,static",
  )
  flags.DEFINE_integer(
    "count",
    prompt_templates.BATCH_SIZE,
    "Number of texts. Example: --count=50",
  )
  command_line.run_main(main, required=())
