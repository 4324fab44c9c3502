r"""Pre-trains a character encoder on published texts.

  python -m ctd_jax.pretrain --config=configs/pretrain.py:small \
    --sources=texts/zizhitongjian,texts/shiji --workdir=runs/pretrain

Reads folders of texts (plain, Kanripo, TEI, Markdown), leaves out what shares a
string with records of the data sets in --exclude, and trains by predicting
masked characters. Prints what was read and left out, and the folder of the
result, WORKDIR/encoder, which configs take as --config.model.encoder.source. On
SIGTERM, a run saves its state and exits with status 75; the same command
resumes it.
"""

from absl import flags

from ctd_jax.training import config as training_config
from ctd_jax.training import process_flags
from ctd_jax.utils import command_line

SOURCES = flags.DEFINE_list(
  "sources",
  None,
  "Folders of published texts. Default: config.pretraining.texts. "
  "Example: --sources=texts/zizhitongjian,texts/shiji",
)
EXCLUDE = flags.DEFINE_list(
  "exclude",
  None,
  "Data sets whose records are left out, with the dates beside them; an empty "
  "value leaves out nothing. Default: config.pretraining.exclude. "
  "Example: --exclude=chunqiutr/rebuilt,zztj/rebuilt",
)


def main() -> None:
  """Pre-trains the config in its workdir."""
  # Imported here so that --help and flag errors do not wait for JAX.
  from ctd_jax.training import (
    compilation,
    devices,
    pretraining,
    pretraining_config,
    run_folder,
  )

  config = command_line.CONFIG.value
  pretraining_config.check_task(config)
  for name, flag in (("texts", SOURCES), ("exclude", EXCLUDE)):
    if flag.value is not None:
      config.pretraining[name] = tuple(filter(None, flag.value))
  devices.initialize_processes()
  compilation.enable_cache(process_flags.COMPILATION_CACHE.value)
  pretraining.pretrain(
    config,
    command_line.WORKDIR.value
    or run_folder.default_workdir(command_line.config_path()),
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(process_flags)
  command_line.run_main(
    main,
    required=("config",),
    explain_field=training_config.suggest_field,
  )
