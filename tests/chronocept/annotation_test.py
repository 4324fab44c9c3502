"""Agreement of annotators: reading, segments, axes, the command."""

import random
import re
import subprocess
import sys

import numpy as np
import pytest
from nltk.metrics import segmentation as nltk_segmentation

from ctd_jax.tasks.chronocept.annotation import (
  agreement,
  agreement_report,
  averaging,
  confusion,
  records,
  segmentation,
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
  actual = records.read_annotations(annotations(tmp_path))
  first, second = actual["A1"]
  assert segmentation.label_jaccard(first, second) == pytest.approx(1 / 3)
  assert segmentation.segment_jaccard(first, second) == 0
  # Seven words; means of 3.5 words, so the window is 2 from either side, and
  # of five probes those over one of the two cuts, at words 3 and 5.
  assert segmentation.pk(first, second) == pytest.approx(4 / 5)
  assert segmentation.segment_jaccard(*actual["A3"]) == 1
  assert segmentation.pk(*actual["A3"]) == 0
  assert segmentation.jaccard(set(), set()) == 1


def test_pk_is_that_of_nltk():
  draw = random.Random(0)
  for _ in range(50):
    size = draw.randint(4, 40)
    cuts = [[int(draw.random() < 0.3) for _ in range(size - 1)] for _ in "ab"]
    # nltk's strings tell after which words, but the last, a cut is.
    strings = ["".join(map(str, cut)) for cut in cuts]
    numbers = [np.cumsum([0, *cut]) for cut in cuts]
    distance = min(segmentation.compute_window(numbers[0]), size - 1)
    assert segmentation.pk_one_way(*numbers) == pytest.approx(
      nltk_segmentation.pk(*strings, k=distance)
    )


def test_window_is_half_a_segment_and_never_below_two():
  assert segmentation.compute_window(np.repeat([0, 1], 10)) == 5
  assert segmentation.compute_window(np.arange(6)) == 2
  assert segmentation.pk_one_way(np.array([0]), np.array([0])) == 0
  assert segmentation.pk_one_way(np.array([0, 1]), np.array([0, 0])) == 1


def test_axes_taken_for_one_another(tmp_path):
  actual = records.make_annotator_pairs(
    records.read_annotations(annotations(tmp_path))
  )
  labels = confusion.make_word_labels(
    pair for p in actual.values() for pair in p
  )
  counts = confusion.compute_confusion_matrix(*labels)
  assert (counts == counts.T).all()
  # Of 15 words 8 have one axis for both.
  assert np.trace(counts) == 2 * 8
  plain = confusion.measure_merging(*labels)
  assert plain.precision == pytest.approx(8 / 15)
  best = {m.axes: m for m in confusion.rank_mergings(*labels)}
  merged = best["static", "generic"]
  assert merged.precision == pytest.approx(11 / 15)
  assert merged.kappa > plain.kappa
  assert ("negation", "recurrent") not in best


def test_averages_of_equal_curves_are_that_curve():
  curve = (40.0, 8.0, 1.5)
  assert averaging.average_parameters([curve, curve]) == curve
  actual = averaging.average_curves([curve, curve])
  assert actual == pytest.approx(curve, rel=1e-3)
  assert averaging.compute_overlaps([curve, curve]) == pytest.approx(
    (1, 1), abs=1e-3
  )


@pytest.mark.slow
def test_opposite_skewness_averages_to_what_nobody_drew():
  opposite = [(40.0, 10.0, 3.0), (60.0, 10.0, -3.0)]
  assert averaging.average_parameters(opposite) == (50.0, 10.0, 0.0)
  wide = [(30.0, 6.0, 3.0), (60.0, 6.0, -3.0)]
  for curves in (opposite, wide):
    of_parameters, of_curves = averaging.compute_overlaps(curves)
    assert of_curves > of_parameters
  # Two humps apart: no single curve keeps them both.
  assert averaging.compute_overlaps(wide)[1] < 0.9


def test_ratings_tell_whether_annotators_change(tmp_path):
  values, crossed = agreement_report.collect_ratings(
    records.read_annotations(annotations(tmp_path))
  )
  assert values.shape == (3, 2, 3)
  assert crossed
  np.testing.assert_array_equal(values[0, :, 0], [40, 44])
  other = ROWS.replace("A2,bo", "A2,cy")
  assert not agreement_report.collect_ratings(
    records.read_annotations(annotations(tmp_path, other))
  )[1]


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("on sand\nA1,bo", "sand\nA1,bo", "csv:3: sample A1: segments: word 6"),
    ("A1,bo", "A1,ann", "csv:3: sample A1: annotator ann has two rows"),
    ("8.0,0.1", "-8.0,0.1", "csv:3: scale='-8.0': Expected `float` > 0.0"),
    ("44.0", "nan", "csv:3: location=nan: expected a finite number"),
    ("static: the", "statik: the", "sample A2: segments: 'statik: the roof"),
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
    records.read_annotations(path)


def test_a_missing_column_and_an_empty_file_are_named(tmp_path):
  with pytest.raises(ValueError, match=r"csv:1: no column segments"):
    records.read_annotations(
      annotations(tmp_path, "", HEADER.replace(",segments", ""))
    )
  with pytest.raises(ValueError, match=r"csv: no annotation"):
    records.read_annotations(annotations(tmp_path, ""))


@pytest.mark.slow
def test_the_command_prints_all_blocks(tmp_path, capsys):
  agreement.print_agreement(str(annotations(tmp_path)))
  report = capsys.readouterr().out
  assert "location  ICC(1,2)" in report
  assert "fit to the mean curve" in report
  assert "static + generic as one" in report


@pytest.mark.slow
def test_the_command_names_the_flag_at_fault(tmp_path):
  path = annotations(tmp_path, ROWS.splitlines()[0])
  module = "ctd_jax.tasks.chronocept.annotation.agreement"
  failed = subprocess.run(
    [sys.executable, "-m", module, f"--annotations={path}"],
    capture_output=True,
    text=True,
    check=False,
  )
  assert failed.returncode == 1
  assert failed.stderr.splitlines()[-1].startswith("error: --annotations=")
  assert "two annotators" in failed.stderr
