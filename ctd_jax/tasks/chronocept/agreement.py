"""Agreement of annotators of validity curves, printed as a report.

  python -m ctd_jax.tasks.chronocept.agreement --annotations=FILE.csv

FILE.csv has a row for each sample and annotator, under the header

  sample_id,annotator,location,scale,skewness,segments

`segments` is the whole text, cut up in its order, each piece under its axis:

  main_outcome: She mends the clock | intention: and will sell it in June

Words are separated by white space; all annotators of a sample must have the
same words, however they cut them. Three empty numbers mean no curve.

The parameters of curves are compared by intraclass correlations, segments by
Jaccard and Pk, the axes of words by precision and Cohen's kappa. The paper does
not name a form of ICC, so every form that applies is given.

Axes: *R any leading axes (resamples), N samples, K annotators, T = 3 targets,
W words.

Source: Chronocept, arXiv 2505.07637v1, sections on annotation; Shrout and
Fleiss (1979), McGraw and Wong (1996) (ICC); Beeferman, Berger and Lafferty
(1999) (Pk).
"""

import functools
import itertools
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import sklearn.metrics
from absl import flags
from jaxtyping import Float, Float64, Int

from ctd_jax.evaluation import significance
from ctd_jax.utils import command_line, files
from ctd_jax_datasets.chronocept.sample_records import AXES, TARGETS

NUM_RESAMPLES = 2000  # enough for two digits of a 95 % interval
MIN_WINDOW = 2  # words; Pk at distance 1 would count cuts only
ICC_GATE = "> .90"  # threshold of the annotators' warm-up
# The paper merges these two, which annotators confuse most.
MERGED_AXES = ("generic", "static")
Ratings = Float[np.ndarray, "*R N K"]
Coefficients = Float[Any, "*R"]  # an array, or a NumPy scalar without *R


class Annotation(msgspec.Struct, dict=True):
  """Annotation of a sample by one annotator: a row of the table."""

  sample_id: str
  annotator: str
  location: float | None  # log time
  scale: Annotated[float, msgspec.Meta(gt=0)] | None  # log time
  skewness: float | None  # shape alpha
  segments: str  # "axis: words | axis: words"

  def __post_init__(self):
    """Raises ValueError for infinite numbers, half a curve and bad segments."""
    for name, value in zip(TARGETS, self.curve, strict=True):
      if value is None and any(other is not None for other in self.curve):
        raise ValueError(f"{name} is empty; give three numbers or none")
      if value is not None and not math.isfinite(value):
        raise ValueError(f"{name}={value}: expected a finite number")
    for axis, words in self.pieces:
      if axis not in AXES or not words:
        raise ValueError(
          f"sample {self.sample_id}: segments: {axis!r} is not 'axis: words' "
          f"with an axis among {', '.join(AXES)}"
        )

  @property
  def curve(self) -> tuple[float | None, ...]:
    """Location, scale and skewness; all None if there is no curve."""
    return self.location, self.scale, self.skewness

  @functools.cached_property
  def pieces(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(axis, words) of each segment, in the order of the text."""
    # Colons may occur in a text; the first one ends the axis.
    parts = (text.partition(":") for text in self.segments.split("|"))
    return tuple((axis.strip(), tuple(text.split())) for axis, _, text in parts)

  @property
  def words(self) -> list[str]:
    """The words of the text."""
    return [word for _, words in self.pieces for word in words]


# Sample id -> its annotations, in order of annotator.
Annotations = Mapping[str, Sequence[Annotation]]
Pair = tuple[Annotation, Annotation]


def read_annotations(path: str | os.PathLike) -> dict[str, list[Annotation]]:
  """Returns the annotations of a table, see `Annotations`."""
  by_sample: dict[str, list[Annotation]] = {}
  for line, new in files.read_csv_rows(path, Annotation):
    location = f"{path}:{line}: sample {new.sample_id}"
    earlier = by_sample.setdefault(new.sample_id, [])
    if new.annotator in [annotation.annotator for annotation in earlier]:
      raise ValueError(f"{location}: annotator {new.annotator} has two rows")
    if earlier:
      first = earlier[0]  # all earlier annotations have its words
      for number, (expected, word) in enumerate(
        itertools.zip_longest(first.words, new.words, fillvalue="(end)"), 1
      ):
        if word != expected:
          raise ValueError(
            f"{location}: segments: word {number} is {word!r} for annotator "
            f"{new.annotator} and {expected!r} for {first.annotator}; cut the "
            "text without editing it"
          )
    earlier.append(new)
  if not by_sample:
    raise ValueError(f"{path}: no annotation below the header")
  return {
    sample_id: sorted(sample_annotations, key=lambda a: a.annotator)
    for sample_id, sample_annotations in by_sample.items()
  }


def make_annotator_pairs(annotations: Annotations) -> dict[str, list[Pair]]:
  """Returns sample id -> pairs of its annotations, if it has two or more."""
  return {
    sample_id: list(itertools.combinations(sample_annotations, 2))
    for sample_id, sample_annotations in annotations.items()
    if len(sample_annotations) > 1
  }


def compute_icc(ratings: Ratings, is_crossed: bool) -> dict[str, Coefficients]:
  """Returns form, in the notation of McGraw and Wong -> correlation.

  ICC(1,1) and ICC(1,K) let annotators differ from sample to sample. ICC(A,1)
  and ICC(C,1) need the same annotators throughout; levels must agree, or only
  the order. A value below 0 says that annotators of a sample differ more than
  samples do.

  Args:
    ratings: N and K at least 2.

  Source: Shrout and Fleiss, Table 2, cases 1 to 3; McGraw and Wong, cases 1,
    2A and 3.
  """
  samples, raters = ratings.shape[-2:]
  # Means keep their axes: [*R, 1, 1], [*R, N, 1] and [*R, 1, K].
  grand_mean = ratings.mean(axis=(-2, -1), keepdims=True)
  row_means = ratings.mean(axis=-1, keepdims=True)
  column_means = ratings.mean(axis=-2, keepdims=True)
  # Mean squares between and within samples, of columns, of the error.
  between = (
    raters * ((row_means - grand_mean) ** 2).sum((-2, -1)) / (samples - 1)
  )
  within = ((ratings - row_means) ** 2).sum((-2, -1)) / (samples * (raters - 1))
  coefficients = {
    "ICC(1,1)": (between - within) / (between + (raters - 1) * within),
    f"ICC(1,{raters})": (between - within) / between,
  }
  if not is_crossed:
    return coefficients
  columns = (
    samples * ((column_means - grand_mean) ** 2).sum((-2, -1)) / (raters - 1)
  )
  error = ((ratings - row_means - column_means + grand_mean) ** 2).sum((-2, -1))
  error = error / ((samples - 1) * (raters - 1))
  total = between + (raters - 1) * error
  level = raters * (columns - error) / samples
  return coefficients | {
    "ICC(A,1)": (between - error) / (total + level),
    "ICC(C,1)": (between - error) / total,
  }


def compute_icc_intervals(
  ratings: Float[np.ndarray, "N K"],
  is_crossed: bool,
  num_resamples: int = NUM_RESAMPLES,
) -> dict[str, tuple[float, float, float]]:
  """Returns form -> (correlation, low and high end of its 95 % interval).

  Args:
    num_resamples: number of resamples of samples; resamples without an ICC do
      not count.

  Raises:
    ValueError: if there are fewer than two samples or annotators, or all
      samples have the same ratings.
  """
  if min(ratings.shape) < 2:
    raise ValueError(
      f"an ICC needs two samples and two annotators, got {ratings.shape}"
    )
  if not np.ptp(ratings.mean(axis=1)):
    raise ValueError("an ICC needs samples whose mean ratings differ")
  resample_indices = np.random.default_rng(0).integers(
    len(ratings), size=(num_resamples, len(ratings))
  )
  # A resample that repeats a single sample has no ICC: 0 / 0.
  with np.errstate(divide="ignore", invalid="ignore"):
    resampled = compute_icc(ratings[resample_indices], is_crossed)
  return {
    form: (
      float(value),
      *np.nanquantile(
        resampled[form], [0.025, 0.975], method="nearest"
      ).tolist(),
    )
    for form, value in compute_icc(ratings, is_crossed).items()
  }


def jaccard(first: Iterable, second: Iterable) -> float:
  """Returns intersection over union; 1 if both are empty."""
  first, second = set(first), set(second)
  union = first | second
  return len(first & second) / len(union) if union else 1.0


def label_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of axes used."""
  return jaccard(*([axis for axis, _ in a.pieces] for a in (first, second)))


def segment_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of (axis, segment)."""
  return jaccard(first.pieces, second.pieces)


def compute_window(segments: Int[np.ndarray, " W"]) -> int:
  """Returns half the mean length of the segments in words, at least 2."""
  return max(MIN_WINDOW, round(len(segments) / len(np.unique(segments)) / 2))


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
  same_reference, same_hypothesis = (
    x[distance:] == x[:-distance] for x in (reference, hypothesis)
  )
  return float(np.mean(same_reference != same_hypothesis))


def pk(first: Annotation, second: Annotation) -> float:
  """Returns the mean of Pk with either annotation as the reference."""
  ids = [
    np.repeat(np.arange(len(a.pieces)), [len(words) for _, words in a.pieces])
    for a in (first, second)
  ]
  return (pk_one_way(*ids) + pk_one_way(*ids[::-1])) / 2


# Name -> (measure of a pair, threshold of the warm-up). Source: Chronocept,
# arXiv 2505.07637v1, section on annotator training.
SEGMENT_MEASURES: Mapping[str, tuple[Callable[..., float], str]] = {
  "Jaccard, axes": (label_jaccard, "> .75"),
  "Jaccard, (axis, segment)": (segment_jaccard, "> .75"),
  "Pk": (pk, "< .15"),
}


def make_word_labels(
  pairs: Iterable[Pair],
) -> tuple[Int[np.ndarray, " W"], Int[np.ndarray, " W"]]:
  """Returns the axes of words by the first and by the second annotators.

  Every pair is counted in both orders, since neither annotator is the truth.
  """
  first, second = (
    [
      AXES.index(axis)
      for a in column
      for axis, words in a.pieces
      for _ in words
    ]
    for column in zip(*pairs, strict=True)
  )
  return np.array(first + second), np.array(second + first)


def measure_merging(
  first: Int[np.ndarray, " W"],
  second: Int[np.ndarray, " W"],
  axes: Sequence[str] = (),
) -> tuple[float, float]:
  """Returns micro precision and Cohen's kappa after some axes are merged.

  Args:
    first: labels of words, see `make_word_labels`.
    axes: names in `AXES` that become one.
  """
  merged = [AXES.index(axis) for axis in axes]
  first, second = (
    np.where(np.isin(labels, merged), min(merged, default=0), labels)
    for labels in (first, second)
  )
  # With a single axis, agreement is complete but not beyond chance, and
  # scikit-learn's kappa is NaN.
  kappa = 0.0
  if len(np.union1d(first, second)) > 1:
    kappa = float(sklearn.metrics.cohen_kappa_score(first, second))
  # With one label for each word, micro precision is accuracy.
  return float(np.mean(first == second)), kappa


def format_agreement(annotations: Annotations) -> str:
  """Returns the report.

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
  """Returns the parameters of curves, and whether all have the same annotators.

  The ICC needs the same number of annotators for all samples; samples with
  another number than the most frequent one are left out.

  Raises:
    ValueError: if no sample has two curves.
  """
  curves = [
    [annotation for annotation in sample if annotation.scale is not None]
    for sample in annotations.values()
  ]
  curves = [sample for sample in curves if len(sample) > 1]
  if not curves:
    raise ValueError("no sample has curves by two annotators")
  num_annotators = statistics.mode(map(len, curves))
  curves = [sample for sample in curves if len(sample) == num_annotators]
  # Annotations of a sample are in order of annotator.
  groups = {tuple(a.annotator for a in sample) for sample in curves}
  return np.array([[a.curve for a in s] for s in curves]), len(groups) == 1


def format_parameters(annotations: Annotations) -> list[str]:
  """Returns the lines about the parameters of the curves."""
  values, is_crossed = collect_ratings(annotations)
  lines = [
    f"curves: {values.shape[0]} of {len(annotations)} samples, "
    f"{values.shape[1]} annotators of each, "
    f"{'the same' if is_crossed else 'changing'} (gate {ICC_GATE})"
  ]
  for column, target in enumerate(TARGETS):
    intervals = compute_icc_intervals(values[..., column], is_crossed)
    lines += [
      f"  {target:<9} {form:<9} {value:7.4f}  [{low:.4f}, {high:.4f}]"
      for form, (value, low, high) in intervals.items()
    ]
  return lines


def format_segments(annotations: Annotations) -> list[str]:
  """Returns the lines about segments: means over samples, then intervals."""
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
  """Returns the lines about the confusion of axes and about mergings."""
  labels = make_word_labels(
    itertools.chain.from_iterable(make_annotator_pairs(annotations).values())
  )
  counts = sklearn.metrics.confusion_matrix(
    *labels, labels=np.arange(len(AXES))
  )
  width = max(map(len, AXES))
  numbers = range(1, len(AXES) + 1)
  head = "".join(f"{number:8}" for number in numbers) + "   words"
  lines = ["axes of words, in percent of the row", " " * (width + 4) + head]
  for number, axis, row in zip(numbers, AXES, counts, strict=True):
    # Pairs are counted in both orders, so a row sums to twice its words.
    cells = "".join(f"{share:8.1f}" for share in 100 * row / max(1, row.sum()))
    lines.append(f"  {number} {axis:<{width}}{cells}{row.sum() / 2:8.1f}")
  precision, kappa = measure_merging(*labels)
  merged_precision, merged_kappa = measure_merging(*labels, MERGED_AXES)
  return [
    *lines,
    f"  micro precision {precision:.4f}, Cohen's kappa {kappa:.4f}",
    f"  {' + '.join(MERGED_AXES)} as one: {merged_precision:.4f}, "
    f"{merged_kappa:.4f} ({merged_kappa - kappa:+.4f})",
  ]


def main() -> None:
  """Prints the agreement of --annotations."""
  path = flags.FLAGS.annotations
  annotations = read_annotations(path)
  try:
    print(format_agreement(annotations))
  except ValueError as error:
    raise ValueError(f"--annotations={path}: {error}") from error


if __name__ == "__main__":
  flags.DEFINE_string(
    "annotations",
    None,
    "CSV file with the columns sample_id, annotator, location, scale, "
    "skewness, segments. Example: --annotations=annotations.csv",
  )
  command_line.run_main(main, required=("annotations",))
