"""Settings of the tests of dating."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
  """Keeps BLAS to one thread: the matrices are small and the cores shared.

  L-BFGS on a few hundred parameters is ten times slower where several threads
  wait for one another.
  """
  threadpoolctl = pytest.importorskip("threadpoolctl")
  with threadpoolctl.threadpool_limits(1):
    yield
