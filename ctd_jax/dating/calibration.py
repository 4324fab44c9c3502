"""How right a posterior is, and whether it is as sure as it is right.

Called by the benchmark of this package.

Axes: n records, K months.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import matplotlib.figure
import numpy as np

from ctd_jax import files
from ctd_jax.dating.posterior import Posterior


def quality(
  posterior: Posterior, rows: np.ndarray, months: np.ndarray
) -> Mapping[str, float]:
  """Returns how right and how calibrated a posterior is.

  Args:
    posterior: to judge.
    rows: records, [n].
    months: their true ordinal months, [n].

  Returns:
    `month`, `within_1`, `year`: share of records whose likeliest month is
    right, right to one month, whose likeliest year is right; `nll`: mean of
    -log p of the true month; `ece`: expected calibration error of the
    likeliest month, ten bins.
  """
  log_p = posterior.log_p(rows)
  guess = log_p.argmax(axis=1)
  years = posterior.axis.to_years(log_p).argmax(axis=1)
  sure = np.exp(log_p.max(axis=1))
  right = guess == months
  return {
    "month": float(right.mean()),
    "within_1": float((np.abs(guess - months) <= 1).mean()),
    "year": float((years == posterior.axis.year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(rows)), months].mean()),
    "ece": sum(
      abs(share_right - confidence) * count / len(rows)
      for confidence, share_right, count in reliability(sure, right)
    ),
  }


def reliability(
  sure: np.ndarray, right: np.ndarray, bins: int = 10
) -> list[tuple[float, float, int]]:
  """Returns (mean confidence, share right, records) of each bin in use.

  Args:
    sure: chance given to the likeliest month, [n].
    right: whether it is the true one, bool [n].
    bins: of equal width.
  """
  place = np.minimum((sure * bins).astype(int), bins - 1)
  return [
    (
      float(sure[place == each].mean()),
      float(right[place == each].mean()),
      int((place == each).sum()),
    )
    for each in np.unique(place)
  ]


def plot_reliability(
  path: str | os.PathLike,
  judged: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> None:
  """Draws the share right against the confidence, with the records below.

  Args:
    path: of the PNG.
    judged: name of a posterior -> (chance given to the likeliest month,
      whether it is the true one), each [n].
  """
  figure = matplotlib.figure.Figure(figsize=(5, 6), layout="constrained")
  above, below = figure.subplots(
    2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 1)}
  )
  above.plot([0, 1], [0, 1], color="0.7", linewidth=1)
  for place, (name, (sure, right)) in enumerate(judged.items()):
    bins = reliability(sure, right)
    confidence, share, counts = map(np.array, zip(*bins, strict=True))
    spread = 1.96 * np.sqrt(share * (1 - share) / counts)
    above.errorbar(
      confidence,
      share,
      spread,
      marker="o",
      capsize=2,
      linewidth=1.2,
      color=f"C{place}",
      label=name,
    )
    below.step(
      np.linspace(0, 1, 11),
      np.append(*_histogram(sure)),
      where="post",
      color=f"C{place}",
    )
  above.set(
    ylabel="share of records whose likeliest month is right",
    ylim=(-0.03, 1.05),
    xlim=(0, 1),
  )
  above.legend(frameon=False, loc="lower right")
  below.set(xlabel="chance given to the likeliest month", ylabel="records")
  below.set_ylim(bottom=0)
  files.write_figure(path, figure)


def _histogram(sure: np.ndarray) -> tuple[np.ndarray, int]:
  """Returns the records of ten bins, and the last again: a step's end."""
  counts, _ = np.histogram(sure, np.linspace(0, 1, 11))
  return counts, counts[-1]
