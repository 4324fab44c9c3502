"""A small index that the tests of this folder share."""

import pytest

from tests.index import small_index


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory):
  """Returns the folder of the index."""
  folder = tmp_path_factory.mktemp("index") / "small.index"
  small_index.write_index(folder)
  return folder
