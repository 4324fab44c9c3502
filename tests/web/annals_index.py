"""An index of short annals, for tests in a browser."""

import pathlib

from tests.index import corpora

TEXT = """泰始元年春正月，大赦天下。
夏四月，雨雹。
五月，封皇弟為王。
羣臣上書言事。
帝幸洛水，觀禊。
秋七月，河南大水。
有司奏免租賦。
八月，吳人來寇。
冬十月，日有食之。
十二月，大雪。
二年春正月，有星孛于東方。
三月，立皇后。
"""


def build_index(folder: pathlib.Path, use_passages: bool = True):
  """Writes `annals` to a folder, builds its index there and returns that."""
  source, index = folder / "annals.txt", folder / "index"
  source.write_text(TEXT)
  corpora.build_index(index, source, reigns="西晉", use_passages=use_passages)
  return index
