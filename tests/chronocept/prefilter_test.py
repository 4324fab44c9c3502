"""The filter of repeated texts, and the prompts that ask for them."""

import csv
import re

import numpy as np
import pytest

from ctd_jax.tasks.chronocept.annotation import (
  prefilter,
  prompt_templates,
  similarity_filter,
)
from ctd_jax_datasets.chronocept.samples import AXES

TEXTS = {
  "T1": "The tram waits at the stop for an hour.",
  "T2": "The tram waits at the stop for an hour today.",
  "T3": "She mends a clock and hums.",
  "T4": "The tram waits at the stop for an hour at night.",
}


def filter_texts(similarity):
  return similarity_filter.filter_greedily(similarity, prefilter.THRESHOLD)


def test_the_first_of_similar_texts_is_kept():
  # 1 is near 0, and 2 near 1 alone: 1 is dropped, so 2 stays.
  chain = np.eye(3)
  chain[0, 1] = chain[1, 0] = chain[1, 2] = chain[2, 1] = 0.8
  verdicts = filter_texts({"tfidf": chain})
  assert [v.is_kept for v in verdicts] == [True, False, True]
  assert [v.nearest_index for v in verdicts] == [None, 0, 0]


def test_the_limit_itself_is_kept_and_either_cosine_drops():
  limit = np.array([[1, 0.7], [0.7, 1]])
  near = np.array([[1, 0.71], [0.71, 1]])
  assert filter_texts({"tfidf": limit})[1].is_kept
  verdict = filter_texts({"tfidf": limit, "embedding": near})[1]
  assert not verdict.is_kept
  assert verdict.cosines == {"tfidf": 0.7, "embedding": 0.71}


def test_tfidf_of_repeated_texts():
  actual = similarity_filter.compute_tfidf_cosines(list(TEXTS.values()))
  assert np.diag(actual) == pytest.approx(1)
  verdicts = filter_texts({"tfidf": actual})
  assert [v.is_kept for v in verdicts] == [True, False, True, False]
  assert similarity_filter.compute_cosines(np.array([[3.0, 4], [4, 3]]))[
    0, 1
  ] == (pytest.approx(0.96))


def test_report_and_kept_texts(tmp_path):
  verdicts = filter_texts({"tfidf": np.array([[1, 0.9], [0.9, 1]])})
  lines = similarity_filter.format_report(["T1", "T2"], verdicts).splitlines()
  assert lines == [
    "sample_id\tkept\tnearest\ttfidf",
    "T1\tyes\t\t",
    "T2\tno\tT1\t0.9000",
  ]
  path = tmp_path / "kept.csv"
  two = {"T1": "a, with a comma", "T2": "b"}
  path.write_text(similarity_filter.format_kept_csv(two, verdicts))
  assert similarity_filter.read_texts(path) == {"T1": "a, with a comma"}


@pytest.mark.parametrize(
  ("rows", "message"),
  [
    ([["sample_id", "body"]], "csv:1: no column text"),
    ([["sample_id", "text"]], "no text below the header"),
    ([["sample_id", "text"], ["A", " "]], "csv:2: text is empty"),
    ([["sample_id", "text"], ["A", "x"], ["A", "y"]], "csv:3: sample_id A was"),
  ],
)
def test_a_malformed_table_of_texts_is_named(tmp_path, rows, message):
  path = tmp_path / "texts.csv"
  with path.open("w", newline="") as file:
    csv.writer(file).writerows(rows)
  with pytest.raises(ValueError, match=re.escape(message)):
    similarity_filter.read_texts(path)


def test_prompts_name_what_they_ask_for():
  text = prompt_templates.format_prompt(
    "single", ["before"], ["main_outcome", "negation"], 7
  )
  assert "$" not in text
  assert "Write 7 texts" in text
  assert "- negation: what does not happen" in text
  assert "one sentence" in text
  several = prompt_templates.format_prompt(
    "several", ["before", "during"], AXES
  )
  assert several.count("\n- ") == 2 + len(AXES)
  assert "present tense" in several
  assert tuple(prompt_templates.AXIS_HINTS) == AXES


@pytest.mark.parametrize(
  ("relations", "axes", "message"),
  [
    (["befor"], ["main_outcome", "static"], "unknown relation 'befor'"),
    (["before"], ["main_outcome", "statics"], "unknown axis 'statics'"),
    (["before"], ["main_outcome"], "expected 2 to 2 axes, got 1"),
    (["before"], ["static", "generic"], "main_outcome is not among"),
    (["before"], ["main_outcome"] * 2, "axis named twice"),
    (["before", "meets"], ["main_outcome", "static"], "expected 1 relation"),
  ],
)
def test_a_prompt_that_does_not_fit_its_kind(relations, axes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    prompt_templates.format_prompt("single", relations, axes)


def test_the_command_writes_both_tables(tmp_path, capsys):
  path = tmp_path / "texts.csv"
  rows = "".join(f"{key},{text}\n" for key, text in TEXTS.items())
  path.write_text("sample_id,text\n" + rows)
  prefilter.filter_texts(str(path), str(tmp_path / "out"), None, 0.7)
  assert "4 texts, 2 dropped" in capsys.readouterr().out
  finished = similarity_filter.read_texts(tmp_path / "out" / "kept.csv")
  assert list(finished) == ["T1", "T3"]
  assert len((tmp_path / "out" / "report.tsv").read_text().splitlines()) == 5
