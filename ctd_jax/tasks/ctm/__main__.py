"""CTM: answer questions, play the Ito game, compare verdicts, write reports.

  python -m ctd_jax.tasks.ctm qa --system=oracle --workdir=runs/oracle
  python -m ctd_jax.tasks.ctm qa --system=model --model=openai/gpt-4o \\
    --arm=open_book --style=cot --workdir=runs/gpt-4o
  python -m ctd_jax.tasks.ctm ito --agent=random --repeats=20 --workdir=runs/ito
  python -m ctd_jax.tasks.ctm judge --answers=ANSWERS.tsv --data=QUESTIONS.jsonl
  python -m ctd_jax.tasks.ctm report LOG... --workdir=runs/report

qa     Answers questions, ours or the authors' (--dataset=release).
       --system=eras knows the names of eras, dynasties and years; oracle has
       the entity table; model asks a chat model, as does `inspect eval
       ctd_jax/ctm`. The workdir gets results.json, report.md, a plot and logs.
ito    Plays the Ito game. --agent is a guesser (random, elimination,
       permutation, joint), oracle, knowing (with --accuracy) or model, as does
       `inspect eval ctd_jax/ito`. The workdir gets games.jsonl (transcripts),
       results.json and report.md.
judge  Compares the judge's verdicts with those of people. ANSWERS.tsv has the
       columns question (id), batch, style (direct or cot), kind, correct (1 or
       0) and answer (\\n for a new line).
report Writes the results and reports of logs of inspect-ai.

To resume an interrupted command, start it again. `COMMAND --help` lists the
flags of a command.
"""

import dataclasses
import pathlib
import sys
import time
from collections.abc import Sequence

from absl import flags

from ctd_jax.tasks import chat
from ctd_jax.utils import command_line, files

# Those of the data set, whose package would make --help slow; a test compares.
SPLITS = ("train", "validation", "test", "all")
TASKS = ("EDD", "PJ", "TOU", "RR", "SEC", "EEU", "TIC", "TES", "LSEC")
MODEL = "model"  # system and agent that ask a chat model
SYSTEMS = ("eras", "oracle", MODEL)
DATASETS = ("ours", "release")
ARMS = ("closed_book", "open_book", "facts", "distractor_facts")
GUESSERS = ("random", "elimination", "permutation", "joint")
AGENTS = (*GUESSERS, "oracle", "knowing", MODEL)
# Left out of the recorded command: they differ between machines.
_PRIVATE_FLAGS = ("--workdir", "--data_dir")


def _define_limit_flag() -> None:
  flags.DEFINE_integer(
    "limit",
    None,
    "Maximum number of questions or games, of each task or level in turn. "
    "Default: all. Example: --limit=100",
    lower_bound=1,
  )


def _define_data_flags() -> None:
  flags.DEFINE_string(
    "data",
    None,
    "JSON lines of questions or games. Default: the built data set. Example: "
    "--data=questions.jsonl",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets. Default: TensorFlow Datasets' own. Example: "
    "--data_dir=~/data",
  )


def _define_release_flags() -> None:
  flags.DEFINE_enum(
    "dataset",
    "ours",
    DATASETS,
    "Questions: ours, or the authors'. Default: ours. Example: "
    "--dataset=release",
  )
  flags.DEFINE_string(
    "sources",
    None,
    "Folder of the authors' JSON files, for --dataset=release. Example: "
    "--sources=ctm_bench",
  )


def _define_judge_flags() -> None:
  chat.define_flags()
  flags.DEFINE_enum(
    "judge",
    "undecided",
    ("undecided", "all"),
    "Answers that --judge_model judges: those on which the rules do not "
    "decide, or all. Default: undecided. Example: --judge=all",
  )


def define_qa_flags() -> None:
  """Defines the flags of `qa`."""
  _define_judge_flags()
  _define_data_flags()
  _define_limit_flag()
  _define_release_flags()
  # No default: a run without a system would be a mistake.
  flags.DEFINE_enum(
    "system", None, SYSTEMS, "System that answers. Example: --system=oracle"
  )
  flags.DEFINE_enum(
    "arm",
    "closed_book",
    ARMS,
    "What a chat model reads before each question. Default: nothing. "
    "Example: --arm=open_book",
  )
  flags.DEFINE_enum(
    "style",
    "direct",
    ("direct", "cot"),
    "Form of a chat model's replies: an answer, or a chain of thought and an "
    "answer. Default: direct. Example: --style=cot",
  )
  flags.DEFINE_enum(
    "prompts",
    "ours",
    ("ours", "paper"),
    "Prompts of a chat model: ours name the periods and the form of the "
    "answer, those of the paper do not. Default: ours. Example: "
    "--prompts=paper",
  )
  flags.DEFINE_enum(
    "split",
    "test",
    SPLITS,
    "Split of the questions. Default: test. Example: --split=validation",
  )
  flags.DEFINE_multi_enum(
    "task",
    [],
    TASKS,
    "Task to ask; repeat the flag for several. Default: all. Example: "
    "--task=EDD --task=PJ",
  )
  flags.DEFINE_string(
    "gallery",
    None,
    "Texts for --arm=open_book: JSON lines with a field `text`. Default: the "
    "evidence of the entity table. Example: --gallery=corpus.jsonl",
  )


def answer_questions() -> None:
  """Runs `qa`."""
  values, start = flags.FLAGS, time.perf_counter()
  if values.system == MODEL:
    chat.check_ready(values.model)
    from ctd_jax.tasks import inspect_tasks

    task = inspect_tasks.ctm(
      arm=values.arm,
      style=values.style,
      split=values.split,
      tasks=",".join(values.task),
      judge=values.judge if values.judge_model else "rules",
      prompts=values.prompts,
      dataset=values.dataset,
      sources=values.sources,
      gallery=values.gallery,
      data=values.data,
      data_dir=values.data_dir,
    )
    options = {"limit": values.limit, **chat.read_options()}
    log = chat.run_task(
      task, values.model, _workdir(), values.judge_model, options
    )
    _report_logs([log])
    return
  if values.sources or values.dataset != "ours":
    raise ValueError(
      "--dataset=release and --sources need --system=model: the authors' "
      "questions are asked of a chat model"
    )
  from ctd_jax.tasks.ctm import data_sources, judge, qa, report

  source = values.data, values.data_dir
  questions = data_sources.load_questions(*source, values.split, values.task)
  answerer = qa.make_answerer(
    values.system, data_sources.load_questions(*source, "train")
  )
  graded = [
    (question, judge.judge_answer(question, answerer.answer(question)))
    for question in questions[: values.limit]
  ]
  rows = report.make_result_rows(
    graded,
    dataset=data_sources.format_dataset_name(
      data_sources.QA_DATASETS[0], *source
    ),
    system=values.system,
    track=qa.SYSTEM_TRACKS[values.system],
    score_mode="rules",
    split=values.split,
    mode=judge.DIRECT,
    **_describe_run("qa", start),
  )
  report.write_report(_workdir(), {values.system: (graded, {})}, rows)


def define_ito_flags() -> None:
  """Defines the flags of `ito`."""
  chat.define_flags(with_judge=False)
  _define_data_flags()
  _define_limit_flag()
  flags.DEFINE_enum(
    "agent", None, AGENTS, "Player in all seats. Example: --agent=random"
  )
  flags.DEFINE_float(
    "accuracy",
    0.7,
    "Probability that --agent=knowing knows the period of an entity. Default: "
    "0.7. Example: --accuracy=0.9",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_integer(
    "rounds",
    8,
    "Maximum number of rounds of a game. Default: 8. Example: --rounds=3",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "repeats",
    1,
    "Number of times to play each game. Default: 1. Example: --repeats=20",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "seed", 0, "Seed of themes and guesses. Default: 0. Example: --seed=1"
  )
  flags.DEFINE_integer(
    "repairs",
    2,
    "How often to ask again for an invalid reply. Default: 2. Example: "
    "--repairs=0",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "feedback",
    True,
    "Tell players after each round which seats were wrong. Default: yes. "
    "Example: --nofeedback",
  )


def play_games() -> None:
  """Runs `ito`."""
  values, start = flags.FLAGS, time.perf_counter()
  rules = {
    name: values[name].value
    for name in ("rounds", "seed", "repairs", "feedback")
  }
  source = {"data": values.data, "data_dir": values.data_dir}
  if values.agent == MODEL:
    chat.check_ready(values.model)
    from ctd_jax.tasks import inspect_tasks

    task = inspect_tasks.ito_game(**rules, **source)
    options = {"epochs": values.repeats, "limit": values.limit}
    options |= chat.read_options()
    _report_logs(
      [chat.run_task(task, values.model, _workdir(), options=options)]
    )
    return
  from ctd_jax.tasks.ctm import data_sources, ito

  games = ito.play_without_model(
    data_sources.load_games(*source.values())[: values.limit],
    lambda instance, repeat: ito.make_agent(
      values.agent, values.accuracy, f"{values.seed}/{repeat}", instance
    ),
    values.repeats,
    **rules,
  )
  knowing = values.agent == "knowing"
  ito.write_report(
    _workdir(),
    games,
    rules,
    dataset=data_sources.format_dataset_name(
      data_sources.ITO_DATASET, *source.values()
    ),
    system=f"knowing-{values.accuracy:g}" if knowing else values.agent,
    track="facts" if values.agent == "oracle" else "closed_book",
    score_mode="rules",
    split="test",
    mode="feedback" if values.feedback else "no_feedback",
    **_describe_run("ito", start),
  )


def define_agreement_flags() -> None:
  """Defines the flags of `judge`."""
  _define_judge_flags()
  _define_data_flags()
  flags.DEFINE_string(
    "answers",
    None,
    "TSV file of answers judged by people. Example: --answers=ANSWERS.tsv",
  )


def compare_verdicts() -> None:
  """Runs `judge`."""
  from ctd_jax.tasks.ctm import data_sources, grading, judge, report
  from ctd_jax_datasets.ctm import schema

  values = flags.FLAGS
  path = pathlib.Path(values.answers)
  if not path.is_file():
    raise FileNotFoundError(f"--answers={path}: no such file")
  answers = grading.read_answers(
    path,
    data_sources.read_json_lines(values.data, schema.question_from_json),
  )
  if values.judge_model:
    chat.check_ready()
    from ctd_jax.tasks import inspect_tasks

    log = chat.run_task(
      inspect_tasks.make_agreement_task(answers, values.judge),
      "none/none",
      path.parent,
      values.judge_model,
      chat.read_options(),
    )
    log.samples.sort(key=lambda sample: sample.id)  # number of the answer
    verdicts = [verdict for _, verdict in report.read_log(log)]
  else:
    verdicts = [
      judge.judge_answer(a.question, a.answer, a.style) for a in answers
    ]
  grading.print_agreement(list(zip(answers, verdicts, strict=True)))


def define_report_flags() -> None:
  """Defines the flags of `report`."""
  flags.DEFINE_string(
    "published",
    None,
    "Result rows of the paper, put beside those of logs made in the same way. "
    "Example: --published=tests/results/published_ctm.json",
  )


def write_reports(paths: Sequence[str]) -> None:
  """Runs `report`."""
  chat.check_ready()
  from inspect_ai.log import read_eval_log

  from ctd_jax.evaluation import results

  if not paths:
    raise ValueError("name one or more logs, e.g. runs/gpt-4o/logs/*.eval")
  published = flags.FLAGS.published
  _report_logs(
    [read_eval_log(path) for path in paths],
    results.read_result_rows(pathlib.Path(published)) if published else (),
  )


def _report_logs(logs: Sequence, published: Sequence = ()) -> None:
  """Writes rows and report of logs of one task."""
  from ctd_jax.tasks.ctm import ito, report

  names = {log.eval.task.rpartition("/")[2] for log in logs}
  if names == {"ito"} and len(logs) == 1:
    ito.write_report(
      _workdir(),
      ito.read_log(logs[0]),
      report.describe_log(logs[0]),
      **chat.describe_run(logs[0]),
    )
    return
  if names != {"ctm"}:
    raise ValueError(
      f"logs of {', '.join(sorted(names))}: should be of ctm, or one of ito"
    )
  runs, rows, settings = {}, [], set()
  for log in logs:
    graded = report.read_log(log)
    # Two logs of one model, e.g. of two arms, are told apart by their number.
    name = (
      f"{log.eval.model} {len(runs) + 1}" if len(logs) > 1 else log.eval.model
    )
    runs[name] = graded, report.describe_log(log)
    fields = report.describe_run(log, graded)
    new_rows = report.make_result_rows(graded, **fields)
    # No cell of a table has two figures.
    setting = [fields[n] for n in ("dataset", "track", "mode", "score_mode")]
    if (*setting, log.eval.model) in settings:
      new_rows = [dataclasses.replace(row, system=name) for row in new_rows]
    settings.add((*setting, log.eval.model))
    rows += new_rows
  report.write_report(_workdir(), runs, rows, published)


def _workdir() -> pathlib.Path:
  return pathlib.Path(command_line.WORKDIR.value).expanduser()


def _describe_run(name: str, start: float) -> dict[str, object]:
  """Returns the fields of result rows that say how a run was made."""
  public = [a for a in sys.argv[1:] if not a.startswith(_PRIVATE_FLAGS)]
  return {
    "command": " ".join(["python -m ctd_jax.tasks.ctm", name, *public]),
    "commit": files.code_commit(),
    "seconds": round(time.perf_counter() - start, 1),
  }


# Command -> (definition of its flags, its function, its required flags).
COMMANDS = {
  "qa": (define_qa_flags, answer_questions, ("system", "workdir")),
  "ito": (define_ito_flags, play_games, ("agent", "workdir")),
  "judge": (define_agreement_flags, compare_verdicts, ("answers", "data")),
  "report": (define_report_flags, write_reports, ("workdir",)),
}


def main() -> None:
  """Runs the command that the first argument names."""
  name = sys.argv[1] if len(sys.argv) > 1 else ""
  if name in ("-h", "--help", "--helpfull", "--helpshort"):
    print(__doc__)
    return
  if name not in COMMANDS:
    problem = f"{name!r} is not one of" if name else "name a command:"
    sys.exit(f"error: {problem} {', '.join(COMMANDS)} (--help describes them)")
  define_flags, run_command, required_flags = COMMANDS[name]
  define_flags()
  flags.adopt_module_key_flags(chat)
  # --help lists the key flags of the main module.
  flags.declare_key_flag(command_line.WORKDIR.name)
  del sys.argv[1]
  command_line.run_main(
    run_command, required_flags, takes_arguments=name == "report"
  )


if __name__ == "__main__":
  main()
