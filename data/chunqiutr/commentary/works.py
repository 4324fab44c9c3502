"""Later commentary, cut into pieces and dated by the text it explains.

Commentary repeats the wording of the entry it explains, often with the date,
and is never the answer: the hard negatives of the benchmark. Each work has a
reader that returns the units its edition prints and the segment of the annals
that each belongs to. Here the candidates are accepted or counted as rejected,
and the accepted ones are cut into pieces.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import multiprocessing
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ctd_jax.chronology.timelines import TimeKey
from ctd_jax_datasets.chunqiutr.alignment import text_alignment
from ctd_jax_datasets.chunqiutr.commentary import (
  essays,
  gu_donggao,
  notes,
  segmentation,
)
from ctd_jax_datasets.common import source_files

DU_YU = "du_yu"
KONG_YINGDA = "kong_yingda"
GU_DONGGAO = "gu_donggao"
WEI_LIAOWENG = "wei_liaoweng"
LV_ZUQIAN = "lv_zuqian"


@dataclasses.dataclass(frozen=True)
class WorkSpec:
  """Reader of one work.

  Attributes:
    title: of the work.
    folders: of its juan, in a folder of sources, and of the work it copies.
    read_work: (paths of each folder in order, anchor) -> aligned work.
    min_chars: a shorter piece only names a person or a place.
  """

  title: str
  folders: tuple[str, ...]
  read_work: Callable[..., text_alignment.AlignedWork]
  min_chars: int


_DU_FOLDER = "duyu_jijie_KR1e0002"
_KONG_FOLDER = "zuozhuan_zhushu_KR1e0004"
_GU_FOLDER = "gudonggao_dashibiao_KR1e0114"
_WEI_FOLDER = "weiliaoweng_yaoyi_KR1e0044"
_LV_FOLDER = "lvzuqian_zuoshizhuanshuo_KR1e0039"

# Of 杜預's notes 13 characters leave about as many as the paper's 3,652.
WORKS = {
  DU_YU: WorkSpec("春秋經傳集解", (_DU_FOLDER,), notes.read_du, 13),
  KONG_YINGDA: WorkSpec("春秋左傳正義", (_KONG_FOLDER,), notes.read_kong, 20),
  GU_DONGGAO: WorkSpec("春秋大事表", (_GU_FOLDER,), gu_donggao.read_gu, 20),
  WEI_LIAOWENG: WorkSpec(
    "春秋左傳要義", (_WEI_FOLDER, _KONG_FOLDER), essays.read_wei, 20
  ),
  LV_ZUQIAN: WorkSpec("左氏傳說", (_LV_FOLDER,), essays.read_lv, 20),
}
COMMENT_SOURCES = tuple(WORKS)  # in the order of the gallery


@dataclasses.dataclass(frozen=True)
class Comment:
  """A piece of commentary.

  Attributes:
    source: one of `COMMENT_SOURCES`.
    text: unpunctuated, as printed.
    key: month of the entry it explains.
    segment_index: index of the segment of the anchor that it explains; None if
      it explains a month as a whole.
    match_score: fit to that segment, 0 to 1.
  """

  source: str
  text: str
  key: TimeKey
  segment_index: int | None
  match_score: float


def parse_works(
  files: Mapping[str, pathlib.Path],
  anchor: text_alignment.Anchor,
  processes: int = 1,
) -> tuple[list[Comment], dict[str, dict[str, Any]]]:
  """Returns the pieces of all works in the order of `WORKS`, and the audit.

  Args:
    files: name -> path, as in `checksums.tsv`.
    anchor: the annotated text in dated parts.
    processes: works read at a time; the result does not depend on it.

  Returns:
    (comments, source -> counts). The counts are in the shape of the
    paper's Tables 18 and 19.

  Raises:
    sources.SourceError: if a work has no file or a file has another form.
  """
  tasks = [
    (
      source,
      [
        source_files.select_folder_files(files, folder)
        for folder in work.folders
      ],
      anchor,
    )
    for source, work in WORKS.items()
  ]
  if processes > 1:
    # Not fork: the parent may hold threads of TensorFlow or JAX.
    with concurrent.futures.ProcessPoolExecutor(
      min(processes, len(tasks)), multiprocessing.get_context("spawn")
    ) as pool:
      results = list(pool.map(_parse_work, *zip(*tasks, strict=True)))
  else:
    results = [_parse_work(*task) for task in tasks]
  comments = [
    comment for work_comments, _ in results for comment in work_comments
  ]
  return comments, {
    source: audit for source, (_, audit) in zip(WORKS, results, strict=True)
  }


def _parse_work(
  source: str,
  paths: Sequence[Sequence[pathlib.Path]],
  anchor: text_alignment.Anchor,
) -> tuple[list[Comment], dict[str, Any]]:
  """Returns the pieces of one work and its audit."""
  work = WORKS[source]
  aligned_work = work.read_work(*paths, anchor)
  rejected: collections.Counter[str] = collections.Counter()
  accepted: list[tuple[tuple[str, ...], text_alignment.AnchorMatch]] = []
  for candidate in aligned_work.candidates:
    anchor_match = candidate.anchor_match
    if anchor_match is None:
      rejected[candidate.reason] += 1
    elif anchor_match.score < text_alignment.MIN_SCORE:
      rejected["score too low"] += 1
    else:
      accepted.append((candidate.passages, anchor_match))
  pieces = [
    Comment(
      source,
      piece,
      anchor_match.key,
      anchor_match.segment_index,
      round(anchor_match.score, 4),
    )
    for passages, anchor_match in accepted
    for passage in passages
    for piece in segmentation.cut_pieces(passage)
  ]
  long_pieces = [piece for piece in pieces if len(piece.text) >= work.min_chars]
  # A work of which nothing is accepted still has a row in the audit.
  lengths = [len(piece.text) for piece in long_pieces] or [0]
  scores = [anchor_match.score for _, anchor_match in accepted] or [0.0]
  return long_pieces, {
    "units": aligned_work.num_units,
    "candidates": len(aligned_work.candidates),
    "accepted": len(accepted),
    "rejected": dict(sorted(rejected.items())),
    "years_checked": aligned_work.num_years_checked,
    "years_agreed": aligned_work.num_years_agreed,
    "mean_score": round(statistics.fmean(scores), 4),
    "pieces": len(long_pieces),
    "dropped_short": len(pieces) - len(long_pieces),
    "mean_chars": round(statistics.fmean(lengths), 1),
    "max_chars": max(lengths),
  }
