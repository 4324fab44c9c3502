"""Connections: slow clients are closed, and there are never too many.

Uvicorn waits for ever for the rest of a request, and accepts connections until
the process has no file descriptors, when nobody is answered any more.
"""

import asyncio
import math
import resource
from typing import Any

from absl import logging
from uvicorn.protocols.http.h11_impl import H11Protocol

from ctd_jax.web import requests

SECONDS = 10.0  # for the head of a request, and between looks at a body
_MIN_BYTES = 4096  # of a body, between two looks
_MAX_CONNECTIONS = 1_000  # of a process
_MIN_CONNECTIONS = 16
# Files that a process opens besides: those of the index, and the database of
# each thread, with its log and the index of that.
_RESERVED = 48 + 3 * requests.NUM_THREADS
_SECONDS_PER_WARNING = 10


def choose_limit() -> int:
  """Returns the most connections that a process may have."""
  files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  return min(max(files - _RESERVED, _MIN_CONNECTIONS), _MAX_CONNECTIONS)


class BoundedProtocol(H11Protocol):
  """A connection that ends if its client is too slow, or has to make room."""

  def __init__(self, *arguments: Any, **options: Any):
    super().__init__(*arguments, **options)
    self._limit = choose_limit()
    self._num_bytes = 0  # received since the last look
    self._num_unsent = math.inf  # bytes in the buffer at the last look
    self._has_drained = False  # whether the client has read since then
    # When the client sent something, or began to wait for a request.
    self.heard = self.idle_since = self.loop.time()
    # Whether it sent something since. The clock of the loop cannot tell: it may
    # count milliseconds.
    self._has_begun = False

  def connection_made(self, transport: asyncio.Transport) -> None:
    """Makes room for a connection and begins to look at it."""
    has_room = len(self.connections) < self._limit or self._make_room()
    super().connection_made(transport)
    if not has_room:
      transport.abort()
    self.loop.call_later(SECONDS / 2, self._look)

  def data_received(self, data: bytes) -> None:
    """Counts what is received."""
    self._num_bytes += len(data)
    self.heard = self.loop.time()
    self._has_begun = True
    super().data_received(data)

  def on_response_complete(self) -> None:
    """Begins to wait for the next request."""
    self.idle_since = self.loop.time()
    self._has_begun = False
    super().on_response_complete()

  def resume_writing(self) -> None:
    """Notes that the client reads."""
    self._has_drained = True
    super().resume_writing()

  @property
  def is_idle(self) -> bool:
    """Whether it waits for the head of a request."""
    return self.cycle is None or self.cycle.response_complete

  @property
  def waits_for_client(self) -> bool:
    """Whether the client has something to do."""
    return self.is_idle or self.cycle.more_body or self.flow.write_paused

  def _make_room(self) -> bool:
    """Closes the connection whose client has been silent for longest.

    Returns whether there is one: it is none of those that are being answered.
    """
    logging.log_every_n_seconds(
      logging.WARNING,
      "%d connections are open, the most that there may be; silent ones are "
      "closed, or new ones if all are busy",
      _SECONDS_PER_WARNING,
      len(self.connections),
    )
    waiting = [it for it in self.connections if it.waits_for_client]
    if not waiting:
      return False
    oldest = min(waiting, key=lambda it: it.heard)
    self.connections.discard(oldest)
    oldest.transport.abort()
    return True

  def _look(self) -> None:
    """Closes the connection if its client is too slow."""
    if self not in self.connections:  # it is closed
      return
    unsent = self.transport.get_write_buffer_size()
    if unsent:
      is_slow = unsent >= self._num_unsent and not self._has_drained
    elif self.is_idle:
      # Uvicorn closes those that are kept for a request to come.
      has_begun = self.cycle is None or self._has_begun
      is_slow = has_begun and self.loop.time() - self.idle_since >= SECONDS
    else:
      is_slow = (
        self.cycle.more_body
        and not self.flow.read_paused
        and self._num_bytes < _MIN_BYTES
      )
    if is_slow:
      # Browsers open connections that they then do not use.
      if unsent or not self.is_idle or self._has_begun:
        logging.log_every_n_seconds(
          logging.WARNING,
          "closed a connection of %s that was too slow; there may be more",
          _SECONDS_PER_WARNING,
          self.client,
        )
      self.transport.abort()
      return
    self._num_bytes, self._num_unsent = 0, unsent or math.inf
    self._has_drained = False
    self.loop.call_later(SECONDS / 2, self._look)
