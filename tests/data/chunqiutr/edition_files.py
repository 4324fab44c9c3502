"""The invented source files of `data/chunqiutr/dummy_data`, for tests.

The real texts stay out of the repository; the parsers and the builder are
tested on these, which have the formats of the editions and invented sentences.
The state 「泠」 and its people never existed.
"""

import hashlib
import pathlib
import shutil

FOLDER = pathlib.Path(__file__).parents[3] / "data" / "chunqiutr" / "dummy_data"
# Name in a folder of sources -> text.
FILES = {
  path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
  for path in sorted(FOLDER.rglob("*.txt"))
}


def write_sources(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns name -> path of copies of the files, below `folder`."""
  shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
  return {name: folder / name for name in FILES}


def write_checksums(
  path: pathlib.Path, url: str = "http://invented.invalid"
) -> None:
  """Writes a checksums file for `FILES`, served below `url`."""
  rows = []
  for name, text in FILES.items():
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    served = name.rpartition("/")[0] + ".txt"
    rows.append(f"{url}/{served}\t{len(content)}\t{digest}\t{name}\n")
  path.write_text("".join(rows), encoding="utf-8")
