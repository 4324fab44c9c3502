"""Writes tests/golden/{encoders,text_encoder}: tiny published models.

  pip install -e .[test,parity] && python -m tests.parity.make_golden

The default tests read these files and so need no torch. Run it again only
when a family is added; the figures are the other implementation's.
"""

import pathlib
import shutil

import numpy as np

from tests.parity import published

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def write_encoder(folder: pathlib.Path) -> None:
  """Writes the model that a folder is named after, and all its states."""
  model = published.make(folder.name, seed=0)
  published.save(model, folder)
  arrays = {}
  for side in ("right", "left"):
    ids, mask = published.texts(side)
    arrays[f"{side}_ids"], arrays[f"{side}_mask"] = ids, mask
    arrays[f"{side}_states"] = published.states(model, ids, mask)
  np.savez_compressed(folder / "states.npz", **arrays)


def write_text_encoder(folder: pathlib.Path) -> None:
  """Writes a decoder with a tokenizer, for the examples of docstrings."""
  published.write_reranker(folder, tied=True)
  (folder / "generation_config.json").unlink()


def main() -> None:
  """Writes one folder a model."""
  folders = {f"encoders/{name}": write_encoder for name in published.FAMILIES}
  folders["text_encoder"] = write_text_encoder
  for name, write in folders.items():
    shutil.rmtree(GOLDEN / name, ignore_errors=True)
    write(GOLDEN / name)


if __name__ == "__main__":
  main()
