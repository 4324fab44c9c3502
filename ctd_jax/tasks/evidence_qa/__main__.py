"""Questions with records to answer from, and scores of the answers.

  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/mini \\
    --system=quote_all --workdir=runs/packs
  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/rebuilt \\
    --system=model --model=NAME --base_url=URL --judge_model=NAME \\
    --workdir=runs/packs-NAME

The folder holds packs.jsonl, answers.jsonl and replies.jsonl (journals: the
same command resumes an interrupted run), scores.tsv (every question) and
report.txt. `quote_all` cites all records and `quote_answers` only those that
answer; a model's scores lie between. Asking a model needs the extra [llm].
"""

from __future__ import annotations

import pathlib

from absl import flags

from ctd_jax.llm import endpoint_flags
from ctd_jax.utils import command_line


def define_flags() -> None:
  """Defines the flags."""
  endpoint_flags.define_endpoint_flags()
  flags.DEFINE_string(
    "dataset", "chunqiutr/rebuilt", "Data set, or beir:FOLDER."
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of data sets. Example: --data_dir=~/data"
  )
  flags.DEFINE_enum(
    "split", "test", ("validation", "test"), "Split of the queries."
  )
  flags.DEFINE_enum(
    "system",
    None,
    ("quote_all", "quote_answers", "model"),
    "Answerer, see above.",
  )
  flags.DEFINE_string(
    "judge_model", None, "Model that judges the answers. Example: gpt-4o"
  )
  flags.DEFINE_integer("answers", 6, "Most answering records of a pack.")
  flags.DEFINE_integer("confusable", 6, "Confusable records of a pack.")
  flags.DEFINE_bool("dated", True, "Whether prompts have the months.")
  flags.DEFINE_integer("limit", None, "Most questions, spread evenly.")
  flags.DEFINE_integer("seed", 0, "Seed of draws and order.")


def main() -> None:
  """Runs the command."""
  from ctd_jax.tasks.evidence_qa import experiment  # keeps --help fast

  values = flags.FLAGS
  endpoint, judge = (
    endpoint_flags.read_endpoint(model) if model else None
    for model in (values.model, values.judge_model)
  )
  experiment.run_packs(
    experiment.EvidenceSettings(
      system=values.system,
      workdir=pathlib.Path(command_line.WORKDIR.value).expanduser(),
      dataset=values.dataset,
      data_dir=values.data_dir,
      split=values.split,
      endpoint=endpoint,
      judge=judge,
      answers=values.answers,
      confusable=values.confusable,
      dated=values.dated,
      limit=values.limit,
      seed=values.seed,
      workers=values.workers,
    )
  )


if __name__ == "__main__":
  define_flags()
  # --help lists the key flags of the main module.
  flags.declare_key_flag(command_line.WORKDIR.name)
  flags.adopt_module_key_flags(endpoint_flags)
  command_line.run_main(main, required=("system", "workdir"))
