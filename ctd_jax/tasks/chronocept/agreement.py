"""Agreement of annotators of validity curves, printed as a report.

  python -m ctd_jax.tasks.chronocept.agreement --annotations=FILE.csv

FILE.csv has a row for each sample and annotator, under the header

  sample_id,annotator,location,scale,skewness,segments

`segments` is the whole text, cut up in its order, each piece under its axis:

  main_outcome: She mends the clock | intention: and will sell it in June

Words are separated by white space; all annotators of a sample must have the
same words, however they cut them. Three empty numbers mean no curve.

The parameters of curves are compared by intraclass correlations, segments by
Jaccard and Pk, the axes of words by precision and Cohen's kappa. The paper
names no form of ICC, so every form that applies is given.

Axes: *R any leading axes (resamples), N samples, K annotators, T = 3 targets, W
words, A axes.

Source: Chronocept, arXiv 2505.07637v1, sections on annotation; Shrout and
Fleiss (1979), McGraw and Wong (1996) (ICC); Beeferman, Berger and Lafferty
(1999) (Pk).
"""

import collections
import dataclasses
import itertools
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any

import msgspec
import numpy as np
import sklearn.metrics
from absl import flags
from jaxtyping import Float, Float64, Int

from ctd_jax.evaluation import significance
from ctd_jax.utils import command_line, files
from ctd_jax_datasets.chronocept.sample_records import AXES, TARGETS


class AnnotationRow(msgspec.Struct):
  """A row of the table."""

  sample_id: str
  annotator: str
  location: float | None  # log time
  scale: Annotated[float, msgspec.Meta(gt=0)] | None  # log time
  skewness: float | None  # shape alpha
  segments: str

  def __post_init__(self):
    """Refuses numbers that are not finite, and half a curve."""
    values = self.location, self.scale, self.skewness
    for name, value in zip(TARGETS, values, strict=True):
      if value is None and any(other is not None for other in values):
        raise ValueError(f"{name} is empty; give three numbers or none")
      if value is not None and not math.isfinite(value):
        raise ValueError(f"{name}={value}: expected a finite number")


@dataclasses.dataclass(frozen=True)
class Annotation:
  """Annotation of a sample by one annotator."""

  sample_id: str
  annotator: str
  # Location, scale, skewness; None if there is no curve.
  curve: tuple[float, float, float] | None
  # (axis, words) in the order of the text.
  segments: tuple[tuple[str, tuple[str, ...]], ...]

  @property
  def words(self) -> tuple[str, ...]:
    """The words of the text."""
    return tuple(itertools.chain.from_iterable(w for _, w in self.segments))

  @property
  def word_axes(self) -> list[str]:
    """The axis of each word."""
    return [axis for axis, words in self.segments for _ in words]

  @property
  def axes(self) -> frozenset[str]:
    """The axes used."""
    return frozenset(axis for axis, _ in self.segments)


def read_annotations(path: str | os.PathLike) -> dict[str, list[Annotation]]:
  """Returns sample id -> its annotations, in order of annotator."""
  annotations_by_sample: dict[str, list[Annotation]] = {}
  for line, row in files.read_csv_rows(path, AnnotationRow):
    line_label = f"{path}:{line}: sample {row.sample_id}"
    annotation = _make_annotation(row, line_label)
    sample_annotations = annotations_by_sample.setdefault(row.sample_id, [])
    _check_consistency(sample_annotations, annotation, line_label)
    sample_annotations.append(annotation)
  if not annotations_by_sample:
    raise ValueError(f"{path}: no annotation below the header")
  return {
    sample_id: sorted(
      sample_annotations, key=lambda annotation: annotation.annotator
    )
    for sample_id, sample_annotations in annotations_by_sample.items()
  }


def make_annotator_pairs(
  annotations: Mapping[str, Sequence[Annotation]],
) -> dict[str, list[tuple[Annotation, Annotation]]]:
  """Returns sample id -> every pair of its annotations.

  Args:
    annotations: sample id -> annotations; samples with one are left out.
  """
  pairs_by_sample = {
    sample_id: list(itertools.combinations(sample_annotations, 2))
    for sample_id, sample_annotations in annotations.items()
  }
  return {
    sample_id: sample_pairs
    for sample_id, sample_pairs in pairs_by_sample.items()
    if sample_pairs
  }


def _make_annotation(row: AnnotationRow, line_label: str) -> Annotation:
  """Returns the annotation of a row after cutting up its segments."""
  segments = []
  # Colons may occur in a text; the first one ends the axis.
  for segment_text in row.segments.split("|"):
    axis, colon, text = segment_text.partition(":")
    axis = axis.strip()
    if not colon or axis not in AXES or not text.split():
      raise ValueError(
        f"{line_label}: segments: {segment_text.strip()!r} is not "
        f"'axis: words' with an axis among {', '.join(AXES)}"
      )
    segments.append((axis, tuple(text.split())))
  curve = None
  if row.location is not None:
    curve = row.location, row.scale, row.skewness
  return Annotation(row.sample_id, row.annotator, curve, tuple(segments))


def _check_consistency(
  earlier_annotations: Sequence[Annotation],
  new_annotation: Annotation,
  line_label: str,
) -> None:
  """Raises ValueError for a second row of an annotator, or other words."""
  annotators = [annotation.annotator for annotation in earlier_annotations]
  if new_annotation.annotator in annotators:
    raise ValueError(
      f"{line_label}: annotator {new_annotation.annotator} has two rows"
    )
  if not earlier_annotations:
    return
  # All earlier annotations have the same words.
  reference = earlier_annotations[0]
  if reference.words == new_annotation.words:
    return
  word_pairs = itertools.zip_longest(
    reference.words, new_annotation.words, fillvalue="(end)"
  )
  word_number, (reference_word, new_word) = next(
    (number, pair)
    for number, pair in enumerate(word_pairs, start=1)
    if pair[0] != pair[1]
  )
  raise ValueError(
    f"{line_label}: segments: word {word_number} is {new_word!r} for annotator "
    f"{new_annotation.annotator} and {reference_word!r} for "
    f"{reference.annotator}; a text is cut, never edited"
  )


NUM_RESAMPLES = 2000  # enough for two digits of a 95 % interval
Ratings = Float[np.ndarray, "*R N K"]
Coefficients = Float[Any, "*R"]  # an array, or a NumPy scalar without *R


@dataclasses.dataclass(frozen=True)
class IntraclassCorrelation:
  """An intraclass correlation and its 95 % interval."""

  form: str  # in the notation of McGraw and Wong, e.g. ICC(1,2).
  # At most 1; below 0 if annotators of a sample differ more than samples differ
  # from each other.
  value: float
  low: float  # lower end of the interval
  high: float  # upper end of the interval


def icc_one_way(ratings: Ratings) -> tuple[Coefficients, Coefficients]:
  """Returns ICC(1,1) and ICC(1,K): annotators differ from sample to sample.

  Args:
    ratings: N and K at least 2.
  Source: Shrout and Fleiss, Table 2 and case 1; McGraw and Wong, case 1.
  """
  between, within, *_ = _mean_squares(ratings)
  raters = ratings.shape[-1]
  single_rater = (between - within) / (between + (raters - 1) * within)
  return single_rater, (between - within) / between


def icc_agreement(ratings: Ratings) -> Coefficients:
  """Returns ICC(A,1): the same annotators throughout, levels must agree.

  Source: McGraw and Wong, case 2A; ICC(2,1) of Shrout and Fleiss.
  """
  between, _, columns, error = _mean_squares(ratings)
  samples, raters = ratings.shape[-2:]
  level = raters * (columns - error) / samples
  return (between - error) / (between + (raters - 1) * error + level)


def icc_consistency(ratings: Ratings) -> Coefficients:
  """Returns ICC(C,1): the same annotators throughout, only order matters.

  Source: McGraw and Wong, case 3; ICC(3,1) of Shrout and Fleiss.
  """
  between, _, _, error = _mean_squares(ratings)
  return (between - error) / (between + (ratings.shape[-1] - 1) * error)


def compute_coefficients(
  ratings: Float[np.ndarray, "N K"],
  is_crossed: bool,
  num_resamples: int = NUM_RESAMPLES,
  seed: int = 0,
) -> list[IntraclassCorrelation]:
  """Returns every form that applies, with 95 % percentile intervals.

  Args:
    is_crossed: whether each column is by one annotator.
    num_resamples: number of resamples of samples; resamples without an ICC do
      not count.

  Raises:
    ValueError: if there are fewer than two samples or annotators, or all
      samples have the same ratings.
  """
  ratings = np.asarray(ratings, np.float64)
  if ratings.ndim != 2 or min(ratings.shape) < 2:
    raise ValueError(
      f"an ICC needs two samples and two annotators, got {ratings.shape}"
    )
  if not np.ptp(ratings.mean(axis=1)):
    raise ValueError("an ICC needs samples whose mean ratings differ")
  raters = ratings.shape[1]
  forms = ["ICC(1,1)", f"ICC(1,{raters})"]
  forms += ["ICC(A,1)", "ICC(C,1)"] if is_crossed else []

  # [forms, *R]
  def statistic(values: Ratings) -> np.ndarray:
    coefficients = [*icc_one_way(values)]
    if is_crossed:
      coefficients += [icc_agreement(values), icc_consistency(values)]
    return np.stack(coefficients)

  resample_indices = np.random.default_rng(seed).integers(
    len(ratings), size=(num_resamples, len(ratings))
  )
  # A resample that repeats a single sample has no ICC: 0 / 0.
  with np.errstate(divide="ignore", invalid="ignore"):
    resampled = statistic(ratings[resample_indices])
  bounds = np.nanquantile(resampled, [0.025, 0.975], axis=1, method="nearest")
  return [
    IntraclassCorrelation(form, *map(float, numbers))
    for form, *numbers in zip(forms, statistic(ratings), *bounds, strict=True)
  ]


def _mean_squares(ratings: Ratings) -> tuple[Coefficients, ...]:
  """Returns mean squares between and within samples, of columns, of error."""
  samples, raters = ratings.shape[-2:]
  # Means keep their axes: [*R, 1, 1], [*R, N, 1] and [*R, 1, K].
  grand_mean = ratings.mean(axis=(-2, -1), keepdims=True)
  row_means = ratings.mean(axis=-1, keepdims=True)
  column_means = ratings.mean(axis=-2, keepdims=True)
  between = (
    raters * ((row_means - grand_mean) ** 2).sum((-2, -1)) / (samples - 1)
  )
  within = ((ratings - row_means) ** 2).sum((-2, -1)) / (samples * (raters - 1))
  between_columns = (
    samples * ((column_means - grand_mean) ** 2).sum((-2, -1)) / (raters - 1)
  )
  error = ((ratings - row_means - column_means + grand_mean) ** 2).sum((-2, -1))
  error = error / ((samples - 1) * (raters - 1))
  return between, within, between_columns, error


MIN_WINDOW = 2  # words; Pk at distance 1 would count cuts only


def jaccard(first: Set, second: Set) -> float:
  """Returns intersection over union; 1 for two empty sets."""
  union = first | second
  return len(first & second) / len(union) if union else 1.0


def label_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of axes used."""
  return jaccard(first.axes, second.axes)


def segment_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of (axis, segment)."""
  return jaccard(set(first.segments), set(second.segments))


def make_segment_ids(annotation: Annotation) -> Int[np.ndarray, " W"]:
  """Returns the index of the segment of each word."""
  lengths = [len(words) for _, words in annotation.segments]
  return np.repeat(np.arange(len(lengths)), lengths)


def compute_window(segments: Int[np.ndarray, " W"]) -> int:
  """Returns half the mean length of the segments in words, at least 2."""
  mean_length = len(segments) / len(np.unique(segments))
  return max(MIN_WINDOW, round(mean_length / 2))


def pk_one_way(
  reference: Int[np.ndarray, " W"], hypothesis: Int[np.ndarray, " W"]
) -> float:
  """Returns Pk of a segmentation against a reference.

  Args:
    reference: segment of each word; its mean length sets the window.
    hypothesis: segment of each word in the other segmentation.

  Returns:
    Share of pairs of words, a window apart, for which the segmentations
    disagree whether both words lie in one segment: 0 is agreement, about .5 is
    chance. A text too short for the window is probed at its longest distance;
    a single word agrees with itself.
  """
  distance = min(compute_window(reference), len(reference) - 1)
  if distance < 1:
    return 0.0
  # Whether the two words of each probe share a segment.
  same_segment = [
    x[distance:] == x[:-distance] for x in (reference, hypothesis)
  ]
  return float(np.mean(same_segment[0] != same_segment[1]))


def pk(first: Annotation, second: Annotation) -> float:
  """Returns the mean of Pk with either annotation as the reference."""
  segment_ids = make_segment_ids(first), make_segment_ids(second)
  return (pk_one_way(*segment_ids) + pk_one_way(*segment_ids[::-1])) / 2


@dataclasses.dataclass(frozen=True)
class Merging:
  """Agreement after two axes are merged."""

  axes: tuple[str, ...]  # names of the merged axes; () for none
  precision: float  # micro precision, the share of words with one axis for both
  kappa: float  # Cohen's kappa, agreement beyond chance


def make_word_labels(
  pairs: Iterable[tuple[Annotation, Annotation]],
) -> tuple[Int[np.ndarray, " W"], Int[np.ndarray, " W"]]:
  """Returns the axes of words by the first and by the second annotators.

  Every pair is counted in both orders, since neither annotator is the truth.
  """
  axis_index = {axis: n for n, axis in enumerate(AXES)}
  first, second = [], []
  for first_annotation, second_annotation in pairs:
    first += [axis_index[axis] for axis in first_annotation.word_axes]
    second += [axis_index[axis] for axis in second_annotation.word_axes]
  return np.array(first + second), np.array(second + first)


def compute_confusion_matrix(
  first: Int[np.ndarray, " W"], second: Int[np.ndarray, " W"]
) -> Int[np.ndarray, "A A"]:
  """Returns counts of words.

  Args:
    first: labels by the first annotator, the rows.
    second: labels by the second annotator, the columns.
  """
  return sklearn.metrics.confusion_matrix(
    first, second, labels=np.arange(len(AXES))
  )


def measure_merging(
  first: Int[np.ndarray, " W"],
  second: Int[np.ndarray, " W"],
  axes: tuple[str, ...] = (),
) -> Merging:
  """Returns the agreement after some axes are merged.

  Args:
    first: labels of words, see `make_word_labels`.
    axes: names in `AXES` that are replaced by the first of them.
  """
  if axes:
    merged_labels = [AXES.index(axis) for axis in axes]
    first, second = (
      np.where(np.isin(labels, merged_labels), merged_labels[0], labels)
      for labels in (first, second)
    )
  # With one label for each word, micro precision is accuracy.
  precision = sklearn.metrics.accuracy_score(first, second)
  # With a single axis, agreement is complete but not beyond chance, and
  # scikit-learn's kappa is NaN.
  used_labels = np.union1d(first, second)
  kappa = (
    sklearn.metrics.cohen_kappa_score(first, second)
    if len(used_labels) > 1
    else 0.0
  )
  return Merging(axes, float(precision), float(kappa))


Annotations = Mapping[str, Sequence[Annotation]]
# Name -> (measure of a pair, threshold of the warm-up). Source: Chronocept,
# arXiv 2505.07637v1, section on annotator training.
SEGMENT_MEASURES: Mapping[str, tuple[Callable[..., float], str]] = {
  "Jaccard, axes": (label_jaccard, "> .75"),
  "Jaccard, (axis, segment)": (segment_jaccard, "> .75"),
  "Pk": (pk, "< .15"),
}
ICC_GATE = "> .90"  # threshold of the same warm-up
# The paper merges these two, which annotators confuse most.
MERGED_AXES = ("generic", "static")


def format_agreement(annotations: Annotations) -> str:
  """Returns the report.

  Args:
    annotations: sample id -> annotations, see `read_annotations`.

  Raises:
    ValueError: if no sample has two annotators, or two curves.
  """
  blocks = (
    format_parameters(annotations),
    format_segments(annotations),
    format_axes(annotations),
  )
  return "\n\n".join("\n".join(lines) for lines in blocks)


def collect_ratings(
  annotations: Annotations,
) -> tuple[Float64[np.ndarray, "N K T"], bool]:
  """Returns the parameters of the curves, and whether annotators are crossed.

  The ICC needs the same number of annotators for all samples; samples with
  another number than the most frequent one are left out.

  Args:
    annotations: sample id -> annotations.

  Returns:
    (ratings, whether all N samples have the same K annotators).

  Raises:
    ValueError: if no sample has two curves.
  """
  curves = [
    [annotation for annotation in sample_annotations if annotation.curve]
    for sample_annotations in annotations.values()
  ]
  curves = [sample_curves for sample_curves in curves if len(sample_curves) > 1]
  if not curves:
    raise ValueError("no sample has curves by two annotators")
  # The most frequent number of annotators.
  num_annotators = collections.Counter(map(len, curves)).most_common(1)[0][0]
  curves = [
    sample_curves
    for sample_curves in curves
    if len(sample_curves) == num_annotators
  ]
  # Annotations of a sample are in order of annotator.
  annotator_groups = {
    tuple(a.annotator for a in sample_curves) for sample_curves in curves
  }
  values = np.array(
    [[a.curve for a in sample_curves] for sample_curves in curves]
  )
  return values, len(annotator_groups) == 1


def format_parameters(annotations: Annotations) -> list[str]:
  """Returns the lines about the parameters of the curves.

  Args:
    annotations: sample id -> annotations.

  Raises:
    ValueError: if no sample has two curves.
  """
  values, is_crossed = collect_ratings(annotations)
  annotator_note = "the same" if is_crossed else "changing"
  lines = [
    f"curves: {values.shape[0]} of {len(annotations)} samples, "
    f"{values.shape[1]} annotators of each, {annotator_note} (gate {ICC_GATE})"
  ]
  for column, target in enumerate(TARGETS):
    for coefficient in compute_coefficients(values[..., column], is_crossed):
      lines.append(
        f"  {target:<9} {coefficient.form:<9} {coefficient.value:7.4f}  "
        f"[{coefficient.low:.4f}, {coefficient.high:.4f}]"
      )
  return lines


def format_segments(annotations: Annotations) -> list[str]:
  """Returns the lines about segments: means over samples, then intervals.

  Args:
    annotations: sample id -> annotations.

  Raises:
    ValueError: if no sample has two annotators.
  """
  pairs = make_annotator_pairs(annotations)
  if not pairs:
    raise ValueError("no sample has two annotators")
  lines = [f"segments: {len(pairs)} samples with two annotators or more"]
  for name, (measure, gate) in SEGMENT_MEASURES.items():
    values = {
      sample_id: statistics.fmean(measure(*pair) for pair in sample_pairs)
      for sample_id, sample_pairs in pairs.items()
    }
    low, high = significance.compute_bootstrap_interval(values)
    lines.append(
      f"  {name:<25} {statistics.fmean(values.values()):.4f}  "
      f"[{low:.4f}, {high:.4f}]  (gate {gate})"
    )
  return lines


def format_axes(annotations: Annotations) -> list[str]:
  """Returns the lines about the confusion of axes and about mergings.

  Args:
    annotations: sample id -> annotations.
  """
  pairs = make_annotator_pairs(annotations).values()
  labels = make_word_labels(p for sample_pairs in pairs for p in sample_pairs)
  counts = compute_confusion_matrix(*labels)
  width = max(map(len, AXES))
  numbers = range(1, len(AXES) + 1)
  head = "".join(f"{number:8}" for number in numbers) + "   words"
  lines = ["axes of words, in percent of the row", " " * (width + 4) + head]
  for number, axis, row in zip(numbers, AXES, counts, strict=True):
    # Pairs are counted in both orders, so a row sums to twice its words.
    shares = 100 * row / max(1, row.sum())
    cells = "".join(f"{share:8.1f}" for share in shares)
    lines.append(f"  {number} {axis:<{width}}{cells}{row.sum() / 2:8.1f}")
  unmerged = measure_merging(*labels)
  lines.append(
    f"  micro precision {unmerged.precision:.4f}, "
    f"Cohen's kappa {unmerged.kappa:.4f}"
  )
  merged = measure_merging(*labels, MERGED_AXES)
  lines.append(
    f"  {' + '.join(MERGED_AXES)} as one: {merged.precision:.4f}, "
    f"{merged.kappa:.4f} ({merged.kappa - unmerged.kappa:+.4f})"
  )
  return lines


def print_agreement(path: str) -> None:
  """Prints the report about a table of annotations.

  Args:
    path: CSV, see `records`.
  """
  # Not at the top: --help needs neither SciPy nor scikit-learn.

  annotations = read_annotations(path)
  try:
    report = format_agreement(annotations)
  except ValueError as error:
    raise ValueError(f"--annotations={path}: {error}") from error
  print(report)


def main() -> None:
  """Prints the agreement of --annotations."""
  print_agreement(flags.FLAGS.annotations)


if __name__ == "__main__":
  flags.DEFINE_string(
    "annotations",
    None,
    "CSV with the columns sample_id, annotator, location, scale, skewness, "
    "segments. Example: --annotations=annotations.csv",
  )
  command_line.run_main(main, required=("annotations",))
