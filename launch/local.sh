#!/usr/bin/env bash
# Trains and evaluates one config on this machine; installs what it needs first.
#
#   ./launch/local.sh --config=configs/tiny.py [--workdir=DIR] [--dry-run] ...
#
# All arguments but --dry-run go to `python -m ctd_jax.train`. Without --workdir
# the run is kept in runs/<config>, where a second call goes on from the last
# checkpoint: give another --workdir with other overrides.
#
# Environment (all optional):
#   VIRTUAL_ENV, CONDA_PREFIX   active environment: used as it is, else .venv
#   PYTHON                      interpreter that .venv is made with (>= 3.11)
#   CTD_JAX_EXTRAS              extras to install, e.g. "cuda" or "tpu"
#   CTD_JAX_LOCKED              1: the releases of constraints/, by hash
#   CTD_JAX_RESTARTS            times to start again, see below; by default 0
#   CTD_JAX_SOURCES             folder of source texts for chunqiutr/rebuilt
#   TFDS_DATA_DIR               where data sets are built
#   JAX_PLATFORMS               e.g. cpu, to leave an accelerator alone
#
# Restarts: SIGTERM saves the state of the run and ends it with status 75, which
# is passed on; with CTD_JAX_RESTARTS it is started again. No other status is.
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
# The run answers the signal; this shell waits for how it ends.
trap : TERM
while :; do
  status=0
  "${command[@]}" || status=$?
  ((status == stopped && restarts-- > 0)) || exit "$status"
  say "the run was stopped and has saved its state; going on"
done
