#!/usr/bin/env bash
# Trains and evaluates one config on this machine; installs what it needs first.
#
#   ./launch/local.sh --config=configs/tiny.py [--workdir=DIR] [--dry-run] ...
#
# All arguments but --dry-run go to `python -m ctd_jax.train`. Without --workdir
# the run is in runs/<config>, and a second call continues it from the last
# checkpoint: give another --workdir if you change fields.
#
# Environment (all optional):
#   VIRTUAL_ENV, CONDA_PREFIX   active environment; without one, .venv is used
#   PYTHON                      interpreter for .venv (>= 3.11)
#   CTD_JAX_EXTRAS              extras to install, e.g. "cuda" or "tpu"
#   CTD_JAX_LOCKED              1: install the versions of constraints/, by hash
#   CTD_JAX_RESTARTS            number of restarts, see below; default: 0
#   CTD_JAX_SOURCES             folder of source texts for chunqiutr/rebuilt
#   TFDS_DATA_DIR               where data sets are built
#   JAX_PLATFORMS               e.g. cpu, to ignore an accelerator
#
# Restarts: on SIGTERM the run saves its state and exits with status 75. The
# script passes that on or, with CTD_JAX_RESTARTS, starts the run again. Other
# statuses never restart it.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=launch/environment.sh
source "$here/environment.sh"
# shellcheck source=launch/arguments.sh
source "$here/arguments.sh"

read_arguments "$@"
name_workdir
read -ra extras <<<"${CTD_JAX_EXTRAS:-}"
use_environment ${extras[@]+"${extras[@]}"}

command=("$python" -m ctd_jax.train "${arguments[@]}")
if ((dry_run)); then
  show "${command[@]}"
  exit
fi
restarts=${CTD_JAX_RESTARTS:-0}
((restarts)) || exec "${command[@]}"
# The run handles the signal; this shell waits for its status.
trap : TERM
while :; do
  status=0
  "${command[@]}" || status=$?
  ((status == stopped && restarts-- > 0)) || exit "$status"
  say "the run was stopped and has saved its state; going on"
done
