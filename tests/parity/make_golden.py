"""Writes tests/golden/encoders: tiny published models and their states.

  pip install -e .[test,parity] && python -m tests.parity.make_golden

The default tests read these files and so need no torch. Run it again only
when a family is added; the figures are the other implementation's.
"""

import pathlib
import shutil

import numpy as np

from tests.parity import published

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden" / "encoders"


def main() -> None:
  """Writes one folder a family."""
  for family in published.FAMILIES:
    folder = FOLDER / family
    shutil.rmtree(folder, ignore_errors=True)
    model = published.make(family, seed=0)
    published.save(model, folder)
    arrays = {}
    for side in ("right", "left"):
      ids, mask = published.texts(side)
      arrays[f"{side}_ids"], arrays[f"{side}_mask"] = ids, mask
      arrays[f"{side}_states"] = published.states(model, ids, mask)
    np.savez_compressed(folder / "states.npz", **arrays)


if __name__ == "__main__":
  main()
