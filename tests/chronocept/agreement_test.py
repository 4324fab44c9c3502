"""Agreement of annotators: reading, ICC, segments, axes, the command."""

import random
import re

import numpy as np
import pytest
import scipy.stats
from nltk.metrics import segmentation as nltk_segmentation

from ctd_jax.tasks.chronocept import agreement
from tests.tools import processes

# Six targets, four judges: Shrout and Fleiss (1979), Table 2.
SHROUT_FLEISS = np.array(
  [
    [9, 2, 5, 8],
    [6, 1, 3, 2],
    [8, 4, 6, 8],
    [7, 1, 2, 6],
    [10, 5, 6, 9],
    [6, 2, 4, 7],
  ],
  float,
)

HEADER = "sample_id,annotator,location,scale,skewness,segments\n"
ROWS = """\
A1,ann,40.0,9.0,0.5,main_outcome: The tram stops | intention: to take on sand
A1,bo,44.0,8.0,0.1,main_outcome: The tram stops to take | static: on sand
A2,ann,60.5,11.0,-1,main_outcome: Rain falls | static: the roof leaks
A2,bo,58.0,12.5,-0.5,main_outcome: Rain falls | generic: the roof leaks
A3,ann,20.0,6.0,2,main_outcome: A kettle sings
A3,bo,25.0,7.0,1,main_outcome: A kettle sings
"""


def annotations(tmp_path, rows=ROWS, header=HEADER):
  path = tmp_path / "annotations.csv"
  path.write_text(header + rows, encoding="utf-8")
  return path


def test_measures_of_segments_by_hand(tmp_path):
  actual = agreement.read_annotations(annotations(tmp_path))
  first, second = actual["A1"]
  assert agreement.label_jaccard(first, second) == pytest.approx(1 / 3)
  assert agreement.segment_jaccard(first, second) == 0
  # Seven words; means of 3.5 words, so the window is 2 from either side, and
  # of five probes those over one of the two cuts, at words 3 and 5.
  assert agreement.pk(first, second) == pytest.approx(4 / 5)
  assert agreement.segment_jaccard(*actual["A3"]) == 1
  assert agreement.pk(*actual["A3"]) == 0
  assert agreement.jaccard(set(), set()) == 1


def test_pk_is_that_of_nltk():
  draw = random.Random(0)
  for _ in range(50):
    size = draw.randint(4, 40)
    cuts = [[int(draw.random() < 0.3) for _ in range(size - 1)] for _ in "ab"]
    # nltk's strings tell after which words, but the last, a cut is.
    strings = ["".join(map(str, cut)) for cut in cuts]
    numbers = [np.cumsum([0, *cut]) for cut in cuts]
    distance = min(agreement.compute_window(numbers[0]), size - 1)
    assert agreement.pk_one_way(*numbers) == pytest.approx(
      nltk_segmentation.pk(*strings, k=distance)
    )


def test_window_is_half_a_segment_and_never_below_two():
  assert agreement.compute_window(np.repeat([0, 1], 10)) == 5
  assert agreement.compute_window(np.arange(6)) == 2
  assert agreement.pk_one_way(np.array([0]), np.array([0])) == 0
  assert agreement.pk_one_way(np.array([0, 1]), np.array([0, 0])) == 1


def test_axes_taken_for_one_another(tmp_path):
  pairs = agreement.make_annotator_pairs(
    agreement.read_annotations(annotations(tmp_path))
  )
  labels = agreement.make_word_labels(p for ps in pairs.values() for p in ps)
  # Of 15 words 8 have one axis for both.
  precision, kappa = agreement.measure_merging(*labels)
  assert precision == pytest.approx(8 / 15)
  merged = agreement.measure_merging(*labels, ("static", "generic"))
  assert merged[0] == pytest.approx(11 / 15)
  assert merged[1] > kappa


def test_ratings_tell_whether_annotators_change(tmp_path):
  for rows, is_crossed in ((ROWS, True), (ROWS.replace("A2,bo", "A2,cy"), 0)):
    values, actual = agreement.collect_ratings(
      agreement.read_annotations(annotations(tmp_path, rows))
    )
    assert values.shape == (3, 2, 3)
    np.testing.assert_array_equal(values[0, :, 0], [40, 44])
    assert actual == is_crossed


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("on sand\nA1,bo", "sand\nA1,bo", "csv:3: sample A1: segments: word 6"),
    ("A1,bo", "A1,ann", "csv:3: sample A1: annotator ann has two rows"),
    ("8.0,0.1", "-8.0,0.1", "csv:3: scale='-8.0': Expected `float` > 0.0"),
    ("44.0", "nan", "csv:3: location=nan: expected a finite number"),
    ("static: the", "statik: the", "sample A2: segments: 'statik' is not"),
    ("generic: the", "generic the", "is not 'axis: words'"),
    ("generic: the", "generic: the, red", "csv:5: expected 6 columns; quote"),
    ("44.0,8.0", "44.0,", "csv:3: scale is empty; give three numbers"),
    ("A3,bo,", "A3,,", "csv:7: annotator is empty"),
  ],
)
def test_a_malformed_row_is_named(tmp_path, old, new, message):
  assert old in ROWS
  path = annotations(tmp_path, ROWS.replace(old, new))
  with pytest.raises(ValueError, match=re.escape(message)):
    agreement.read_annotations(path)


def test_a_missing_column_and_an_empty_file_are_named(tmp_path):
  with pytest.raises(ValueError, match=r"csv:1: no column segments"):
    agreement.read_annotations(
      annotations(tmp_path, "", HEADER.replace(",segments", ""))
    )
  with pytest.raises(ValueError, match=r"csv: no annotation"):
    agreement.read_annotations(annotations(tmp_path, ""))


def test_the_worked_example_of_shrout_and_fleiss():
  # Their Table 4.
  assert agreement.compute_icc(SHROUT_FLEISS, True) == pytest.approx(
    {"ICC(1,1)": 0.17, "ICC(1,4)": 0.44, "ICC(A,1)": 0.29, "ICC(C,1)": 0.71},
    abs=0.005,
  )


def test_one_way_is_the_f_ratio_of_an_anova():
  draw = np.random.default_rng(1)
  ratings = draw.normal(size=(30, 1)) + draw.normal(size=(30, 2))
  ratio = scipy.stats.f_oneway(*ratings).statistic
  assert agreement.compute_icc(ratings, False) == pytest.approx(
    {"ICC(1,1)": (ratio - 1) / (ratio + 1), "ICC(1,2)": 1 - 1 / ratio}
  )


def test_a_constant_difference_hurts_agreement_not_consistency():
  first = np.arange(10.0)
  shifted = agreement.compute_icc(np.column_stack([first, first + 5]), True)
  assert shifted["ICC(C,1)"] == pytest.approx(1)
  assert shifted["ICC(A,1)"] < 0.5
  same = agreement.compute_icc(np.column_stack([first, first]), False)
  assert [*same.values()] == [1, 1]


def test_intervals_hold_the_value_and_shrink_with_samples():
  draw = np.random.default_rng(0)
  ratings = draw.normal(size=(400, 1)) + 0.5 * draw.normal(size=(400, 2))
  few, many = (
    agreement.compute_icc_intervals(some, True, num_resamples=500)
    for some in (ratings[:40], ratings)
  )
  assert [*many] == ["ICC(1,1)", "ICC(1,2)", "ICC(A,1)", "ICC(C,1)"]
  for form, (value, low, high) in many.items():
    assert low < value < high
    assert high - low < few[form][2] - few[form][1]
  # One annotator's variance is 1 + .25.
  assert many["ICC(1,1)"][1] < 1 / 1.25 < many["ICC(1,1)"][2]


@pytest.mark.parametrize(
  ("ratings", "message"),
  [
    (np.ones((1, 2)), "two samples and two annotators"),
    (np.ones((5, 1)), "two samples and two annotators"),
    (np.ones((5, 2)), "mean ratings differ"),
  ],
)
def test_what_has_no_icc_is_refused(ratings, message):
  with pytest.raises(ValueError, match=message):
    agreement.compute_icc_intervals(ratings, is_crossed=True)


@pytest.mark.slow
def test_the_command_prints_all_blocks_or_names_the_flag(tmp_path):
  done, failed = (
    processes.run_python(
      *("-m", "ctd_jax.tasks.chronocept.agreement"),
      f"--annotations={annotations(tmp_path, rows)}",
    )
    for rows in (ROWS, ROWS.splitlines()[0])
  )
  assert "location  ICC(1,2)" in done.stdout
  assert "generic + static as one" in done.stdout
  assert failed.returncode == 1
  assert failed.stderr.splitlines()[-1].startswith("error: --annotations=")
  assert "two annotators" in failed.stderr
