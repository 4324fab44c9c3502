"""Traffic between devices, read from the text of a compiled function.

A collective in the body of a loop counts as often as the loop runs. One that
runs beside other instructions stands in several fusions, under one channel,
and counts once.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from absl import logging

# Share of the bytes of a result that a device sends, of n devices in a ring.
# Source: Thakur et al. 2005, "Optimization of Collective Communication
# Operations in MPICH". A result of reduce-scatter is one of n parts.
_SENT_SHARES = {
  "all-reduce": lambda n: 2 * (n - 1) / n,
  "all-gather": lambda n: (n - 1) / n,
  "reduce-scatter": lambda n: n - 1,
  "all-to-all": lambda n: (n - 1) / n,
  "ragged-all-to-all": lambda n: (n - 1) / n,
  "collective-broadcast": lambda n: 1,
  "collective-permute": lambda n: 1,
}
_BITS = {"pred": 8, "token": 0}  # others end in the number of their bits
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) (?:\(.*\)|\{).*\{\s*$")
# "%name = type operation(": the type of a tuple has brackets of its own.
_INSTRUCTION = re.compile(
  r"^\s*(?:ROOT )?%?[\w.-]+ = (\(.*?\)|\S+) ([a-z][\w-]*)\("
)
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_CALLED = re.compile(
  r"\b(?:body|to_apply|calls|true_computation|false_computation)=%?([\w.-]+)"
)
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"\bcondition=%?([\w.-]+)")
_CONSTANT = re.compile(r"= [su]\d+\[\]\S* constant\((\d+)\)")


@dataclasses.dataclass(frozen=True)
class Traffic:
  """Collectives of one kind in a run of a function.

  Attributes:
    calls: how often one runs.
    sent_bytes: that one device sends.
  """

  calls: int
  sent_bytes: float


def read_traffic(text: str, num_devices: int) -> dict[str, Traffic]:
  """Returns the traffic of a compiled function by the kind of collective.

  Args:
    text: of the compiled function, in HLO.
    num_devices: of the program.

  Raises:
    ValueError: if the text has no entry.
  """
  computations, entry = _split_computations(text)
  calls: collections.Counter[str] = collections.Counter()
  sent_bytes: collections.Counter[str] = collections.Counter()
  channels: set[str] = set()

  def visit(name: str, times: int) -> None:
    for line in computations.get(name, ()):
      match = _INSTRUCTION.match(line)
      if match is None:
        continue
      result_type, operation = match.groups()
      kind = operation.removesuffix("-start")
      if kind in _SENT_SHARES:
        if channel := _CHANNEL.search(line):
          if channel[1] in channels:
            continue
          channels.add(channel[1])
        devices = _count_group(line, num_devices)
        size = _count_bytes(result_type, operation.endswith("-start"))
        calls[kind] += times
        sent_bytes[kind] += times * size * _SENT_SHARES[kind](devices)
        continue
      seen_calls = calls.total()
      trips = _count_trips(line, computations) if operation == "while" else 1
      for called in _list_called(line):
        visit(called, times * (trips or 1))
      if trips is None and calls.total() > seen_calls:
        logging.warning(
          "the program does not say how often a loop runs: %d collectives in "
          "it count once",
          calls.total() - seen_calls,
        )

  visit(entry, 1)
  return {kind: Traffic(calls[kind], sent_bytes[kind]) for kind in calls}


def _split_computations(text: str) -> tuple[dict[str, list[str]], str]:
  """Returns the lines of every computation, and the name of the entry."""
  computations: dict[str, list[str]] = {}
  entry, lines = "", []
  for line in text.splitlines():
    if not line.startswith((" ", "}")) and (match := _COMPUTATION.match(line)):
      lines = computations[match[2]] = []
      if match[1]:
        entry = match[2]
    else:
      lines.append(line)
  if not entry:
    raise ValueError("no text of a compiled function: it has no ENTRY")
  return computations, entry


def _count_trips(
  line: str, computations: Mapping[str, Sequence[str]]
) -> int | None:
  """Returns how often a loop runs; None = not known.

  Either the compiler says it, or the condition compares the counter of a scan,
  from 0, with the only constant that it has.
  """
  if trips := _TRIP_COUNT.search(line):
    return int(trips[1])
  condition = _CONDITION.search(line)
  lines = computations.get(condition[1], ()) if condition else ()
  constants = [match[1] for text in lines if (match := _CONSTANT.search(text))]
  is_scan = any("direction=LT" in text for text in lines)
  return int(constants[0]) if is_scan and len(constants) == 1 else None


def _list_called(line: str) -> list[str]:
  """Returns the computations that an instruction runs."""
  called = _CALLED.findall(line)
  if branches := _BRANCHES.search(line):
    called += [name.strip(" %") for name in branches[1].split(",")]
  return called


def _count_bytes(result_type: str, is_start: bool) -> int:
  """Returns the bytes of a result.

  Args:
    result_type: of an array or a tuple.
    is_start: whether it is that of an asynchronous start, whose tuple has the
      operand, too; the result is the larger of the two.
  """
  sizes = []
  for element_type, shape in _ARRAY.findall(result_type):
    digits = re.match(r"[a-z]+(\d+)", element_type)
    bits = _BITS.get(element_type) or (int(digits[1]) if digits else 0)
    elements = math.prod(map(int, filter(None, shape.split(","))))
    sizes.append(elements * bits // 8)
  return max(sizes, default=0) if is_start else sum(sizes)


def _count_group(line: str, num_devices: int) -> int:
  """Returns how many devices take part in one collective.

  XLA writes the groups as lists {{0,1},{2,3}}, as a number of groups and their
  size [2,4]<=[8], or as axes of a mesh.
  """
  if match := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
    return match[1].count(",") + 1
  if match := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
    return int(match[1])
  if match := re.search(
    r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", line
  ):
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
    return math.prod(
      int(sizes[axis]) for axis in re.findall(r"'(\w+)'", match[2])
    )
  return num_devices
