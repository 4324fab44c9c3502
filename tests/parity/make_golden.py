"""Writes tests/golden/{encoders,masked_lms,reranker}: tiny published models.

  pip install -e .[test,parity] && python -m tests.parity.make_golden

The default tests read these files and so need no torch. Run it again only
when a family is added; the figures are the other implementation's.
"""

import json
import pathlib
import shutil

import numpy as np
import transformers

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


def write_masked_lm(folder: pathlib.Path) -> None:
  """Writes the model that a folder is named after, and its logits."""
  kind = transformers.AutoModelForMaskedLM
  model = published.make(folder.name, seed=0, kind=kind)
  published.save(model, folder)
  ids, mask = published.texts("right")
  logits = published.logits(model, ids, mask)
  np.savez_compressed(folder / "logits.npz", ids=ids, mask=mask, logits=logits)


def write_reranker(folder: pathlib.Path) -> None:
  """Writes a reranker, its questions and the probability of a yes."""
  published.write_reranker(folder, tied=True)
  (folder / "generation_config.json").unlink()
  answers = {
    "questions": published.QUESTIONS,
    "p_yes": published.p_yes(folder).tolist(),
  }
  text = json.dumps(answers, ensure_ascii=False, indent=2)
  (folder / "p_yes.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
  """Writes one folder a model."""
  for write, folders in (
    (write_encoder, [f"encoders/{family}" for family in published.FAMILIES]),
    (
      write_masked_lm,
      [f"masked_lms/{family}" for family in published.MASKED_LMS],
    ),
    (write_reranker, ["reranker"]),
  ):
    for name in folders:
      shutil.rmtree(GOLDEN / name, ignore_errors=True)
      write(GOLDEN / name)


if __name__ == "__main__":
  main()
