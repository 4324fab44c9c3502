"""Intervals around predicted parameters, and whether they hold what they say.

Why: a point says nothing of how sure it is. The residuals of the validation
split, added to a prediction, are a predictive distribution that any model can
be given after training, without assuming a shape; test targets should fall
uniformly within it. Called by `rows` and `page`.

Axes: N validation samples, Q test samples, T = 3 targets.

Source: Dawid 1984 and Gneiting, Balabdaoui and Raftery 2007 (PIT); split
conformal prediction, Vovk, Gammerman and Shafer 2005.
"""

from __future__ import annotations

import numpy as np

LEVELS = (0.5, 0.8, 0.9, 0.95)


def pit(validation: np.ndarray, test: np.ndarray) -> np.ndarray:
  """Returns the probability integral transform of test residuals, [Q, T].

  The share of validation residuals below, ties half, kept off 0 and 1 by half
  a place. Uniform if the residuals of both splits have one distribution.

  Args:
    validation: truth less prediction, [N, T].
    test: likewise, [Q, T].
  """
  below = (validation[None] < test[:, None]).sum(axis=1)
  equal = (validation[None] == test[:, None]).sum(axis=1)
  return (below + equal / 2 + 0.5) / (len(validation) + 1)


def covered(pits: np.ndarray, level: float) -> np.ndarray:
  """Returns which targets lie in the central interval, bool [Q, T].

  Args:
    pits: see `pit`.
    level: share of the distribution that the interval holds.
  """
  return np.abs(pits - 0.5) <= level / 2


def width(validation: np.ndarray, level: float) -> np.ndarray:
  """Returns the width of the central interval of each target, [T].

  Args:
    validation: truth less prediction, [N, T].
    level: see `covered`.
  """
  tail = (1 - level) / 2
  low, high = np.quantile(validation, [tail, 1 - tail], axis=0)
  return high - low
