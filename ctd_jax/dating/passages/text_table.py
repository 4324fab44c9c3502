"""Text table: many texts as one array of bytes, so that it can be mapped."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, UInt8


@dataclasses.dataclass(frozen=True, eq=False)
class TextTable:
  """Texts by number.

  Attributes:
    starts: where each text begins; the last entry is the end of all.
    content: the texts in UTF-8, one after another.
  """

  starts: Int[np.ndarray, " starts"]
  content: UInt8[np.ndarray, " bytes"]

  @classmethod
  def from_texts(cls, texts: Sequence[str]) -> TextTable:
    """Returns the table of some texts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = list(itertools.accumulate(map(len, encoded), initial=0))
    content = np.frombuffer(b"".join(encoded), np.uint8)
    return cls(np.array(starts, np.int64), content)

  def __len__(self) -> int:
    return len(self.starts) - 1

  def __getitem__(self, row: int) -> str:
    span = slice(int(self.starts[row]), int(self.starts[row + 1]))
    return self.content[span].tobytes().decode("utf-8", "surrogatepass")
