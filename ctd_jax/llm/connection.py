"""Connections to chat models: a client opened for an endpoint.

This module needs no extra; `open_client` imports the client, which does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ctd_jax.llm.endpoint import Endpoint
from ctd_jax.llm.journal import Journal

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm


@contextlib.contextmanager
def open_client(
  journal_path: str | os.PathLike, endpoint: Endpoint
) -> Iterator[ChatClient]:
  """Yields the client of a model; its replies are journaled.

  Args:
    journal_path: path of the journal.
    endpoint: model and server.

  Raises:
    ValueError: if the extra `llm` is not installed, no key is given, or
      another process writes to the journal.
  """
  try:
    from ctd_jax.llm import client
  except ImportError as error:
    raise ValueError(
      f"asking a model needs the package {error.name}: pip install "
      "'ctd_jax[llm]'"
    ) from None
  with Journal(journal_path) as journal:
    yield client.ChatClient(endpoint, journal)
