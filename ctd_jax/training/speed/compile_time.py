"""Seconds that a process spends compiling, from JAX's own events."""

from __future__ import annotations

from typing import Any

import jax

# XLA alone, or the reading of what the cache holds; tracing is not in it.
_EVENT = "/jax/core/compile/backend_compile_duration"


class CompileClock:
  """Sum of the compile times of this process, from now until `close`."""

  def __init__(self):
    """Starts at 0."""
    self.seconds = 0.0
    jax.monitoring.register_event_duration_secs_listener(self._add_duration)

  def _add_duration(self, event: str, duration: float, **labels: Any) -> None:
    """Is called by JAX at the end of whatever it times."""
    del labels
    if event == _EVENT:
      self.seconds += duration

  def close(self) -> None:
    """Stops."""
    jax.monitoring.unregister_event_duration_listener(self._add_duration)
