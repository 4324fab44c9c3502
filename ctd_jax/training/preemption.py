"""Preemption of a run: a signal saves between two steps and ends the run.

A machine that is about to be taken away sends SIGTERM, a person at a terminal
SIGINT. In the training loop either is only noted, and the loop ends after the
step at hand with a checkpoint. Outside the loop, and at the second signal, the
run ends at once. The launch scripts restart a run that left with `EXIT_SAVED`.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

import jax
from absl import logging
from jax.experimental import multihost_utils

# EX_TEMPFAIL of sysexits.h; as `stopped` in launch/environment.sh.
EXIT_SAVED = 75
# As a shell reports SIGINT. Launch scripts do not restart what a person ended.
EXIT_INTERRUPTED = 128 + signal.SIGINT

_EXIT_STATUS = {signal.SIGTERM: EXIT_SAVED, signal.SIGINT: EXIT_INTERRUPTED}


class Preempted(SystemExit):
  """The run got a signal; the code is the status it leaves with."""


class PreemptionWatch:
  """Handler of SIGTERM and SIGINT while it is entered.

  Several processes have to stop at the same step, whichever of them got the
  signal. There JAX notes SIGTERM and agrees on the step, only the loop reacts,
  and SIGINT is not handled.

  Attributes:
    defers_signals: whether a signal is only noted; the loop sets it.
  """

  def __init__(self):
    """Prepares to watch; the processes of the run must have been joined."""
    self.defers_signals = False
    self._is_single_process = jax.process_count() == 1
    self._status: int | None = None

  def __enter__(self) -> PreemptionWatch:
    if self._is_single_process:
      self._previous_handlers = {
        s: signal.signal(s, self._handle_signal) for s in _EXIT_STATUS
      }
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
  ) -> None:
    if self._is_single_process:
      for number, handler in self._previous_handlers.items():
        signal.signal(number, handler)

  def _handle_signal(self, number: int, frame: FrameType | None) -> None:
    # The second signal, or no loop that would save: leave from here.
    if self._status is not None or not self.defers_signals:
      raise Preempted(_EXIT_STATUS[number])
    self._status = _EXIT_STATUS[number]
    logging.warning(
      "%s: stopping after this step; once more to stop at once",
      signal.Signals(number).name,
    )

  def stop_requested(self, step: int) -> bool:
    """Returns whether to stop after `step`; call it at every step."""
    if (
      not self._is_single_process
      and multihost_utils.reached_preemption_sync_point(step)
    ):
      self._status = EXIT_SAVED
    return self._status is not None

  def exit_if_requested(self) -> None:
    """Ends the run if it got a signal; its state has been saved.

    Raises:
      Preempted: with the status to leave with.
    """
    if self._status is not None:
      logging.warning(
        "stopped with a checkpoint; the same command goes on from it "
        "(exit status %d)",
        self._status,
      )
      raise Preempted(self._status)
