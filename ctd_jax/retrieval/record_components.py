"""Components of a record: its pseudo-queries as at most four vectors.

More than `NUM_CLUSTERS` vectors are replaced by the centres of as many
clusters.

Axes: N records, C components of a record, W width, m vectors of a record, M
vectors of all records.

Source: ChunQiuTR, baseline PQR; constants of its release.
"""

from __future__ import annotations

import types

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.models.token_encoder import TokenVectors
from ctd_jax.utils import progress

NUM_CLUSTERS = 4
CLUSTER_SEED = 0  # of the initial centres


def cluster_centres(
  vectors: Float[np.ndarray, "m W"],
) -> Float[np.ndarray, "C W"]:
  """Returns the components of a record, of length 1.

  Args:
    vectors: of its pseudo-queries, of length 1; up to `NUM_CLUSTERS` are the
      components themselves.
  """
  if len(vectors) <= NUM_CLUSTERS:
    return vectors
  kmeans = (
    import_sklearn_cluster()
    .KMeans(NUM_CLUSTERS, random_state=CLUSTER_SEED)
    .fit(vectors)
  )
  centres = kmeans.cluster_centers_
  norms = np.linalg.norm(centres, axis=1, keepdims=True)
  # The centre of opposite vectors may be 0.
  return (centres / np.maximum(norms, 1e-12)).astype(np.float32)


def import_sklearn_cluster() -> types.ModuleType:
  """Returns scikit-learn's clusters, which come with an extra."""
  try:
    from sklearn import cluster
  except ModuleNotFoundError as error:
    raise ValueError(
      f"the system pqr needs {error.name}: pip install 'ctd_jax[baselines]'"
    ) from None
  return cluster


def build_components(
  vectors: Float[np.ndarray, "M W"],
  record_rows: Int[np.ndarray, " M"],
  num_records: int,
) -> TokenVectors:
  """Returns the components of all records, [N, NUM_CLUSTERS, W].

  Args:
    vectors: of all pseudo-queries, of length 1, those of a record together.
    record_rows: record of every vector, ascending; every record has one.
    num_records: N.
  """
  components = np.zeros(
    (num_records, NUM_CLUSTERS, vectors.shape[1]), np.float32
  )
  # Records with fewer components leave the others masked out.
  mask = np.zeros((num_records, NUM_CLUSTERS), bool)
  starts = np.searchsorted(record_rows, np.arange(num_records + 1))
  for row in progress.Progress(range(num_records), desc="cluster"):
    record_centres = cluster_centres(vectors[starts[row] : starts[row + 1]])
    components[row, : len(record_centres)] = record_centres
    mask[row, : len(record_centres)] = True
  return TokenVectors(components, mask)
