"""Steps of all works by Apache Beam: in processes here, or on other machines.

The pipeline carries names; what is large goes through files that every worker
sees. A step that is run twice, because a worker died or was slow, writes the
same file twice, each time whole.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from collections.abc import Sequence

import msgspec

from ctd_jax.corpora import work_steps
from ctd_jax.corpora.corpus_files import WorkOutcome
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.utils import files

DIRECT = "DirectRunner"
_OUTCOMES_FILE = ".outcomes.json"
# What Beam calls DirectRunner may be another program, which it downloads. This
# one is part of it, and the only one whose workers are processes.
_DIRECT_CLASS = (
  "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
)


def run_steps(
  sources: Sequence[str],
  settings: CorpusSettings,
  runner: str,
  workers: int,
  arguments: Sequence[str] = (),
) -> list[WorkOutcome]:
  """Returns the outcomes of all works, in any order.

  Args:
    sources: paths that all workers see.
    settings: of the corpus, likewise.
    runner: as Beam calls it.
    workers: processes of `DIRECT`.
    arguments: flags of Beam and of the runner.

  Raises:
    ValueError: if Beam is not installed, or a flag is wrong.
  """
  if importlib.util.find_spec("apache_beam") is None:
    raise ValueError(
      f"--runner={runner}: Apache Beam is not installed; pip install "
      "'ctd_jax[beam]', or leave the flag out"
    )
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

  # Workers tell every step of their own life otherwise.
  level = "--default_sdk_harness_log_level=WARNING"
  flags = [f"--runner={runner}", level, *arguments]
  if runner == DIRECT:
    flags[0] = f"--runner={_DIRECT_CLASS}"
    flags += [
      f"--direct_num_workers={workers}",
      "--direct_running_mode=multi_processing",
    ]
  out = pathlib.Path(settings.out)
  out.mkdir(parents=True, exist_ok=True)
  # The last step writes it, on any machine, and it is read here.
  path = out / _OUTCOMES_FILE
  with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
    works = (
      pipeline
      | beam.Create(list(sources))
      | "spread sources" >> beam.Reshuffle()
      | "date"
      >> beam.FlatMap(functools.partial(work_steps.date_source, settings))
    )
    if settings.encoder:
      works = (
        works
        | "spread works" >> beam.Reshuffle()
        | "encode"
        >> beam.Map(functools.partial(work_steps.encode_work, settings))
      )
    _ = (
      works
      | beam.combiners.ToList()
      | "write" >> beam.Map(functools.partial(_write_outcomes, str(path)))
    )
  outcomes = msgspec.json.decode(path.read_bytes(), type=list[WorkOutcome])
  path.unlink()
  return outcomes


def _write_outcomes(path: str, outcomes: Sequence[WorkOutcome]) -> None:
  files.write_text(path, msgspec.json.encode(outcomes).decode())
