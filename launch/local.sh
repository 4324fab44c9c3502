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
#   CTD_JAX_SOURCES             folder of source texts for chunqiutr/rebuilt
#   TFDS_DATA_DIR               where data sets are built
#   JAX_PLATFORMS               e.g. cpu, to leave an accelerator alone
set -euo pipefail

dry_run=0
config=
workdir=
help=0
arguments=()
previous=
for argument in "$@"; do
  case $argument in
    --dry-run | --dry_run) dry_run=1 && continue ;;
    --config=* | -config=*) config=${argument#*=} ;;
    --workdir=* | -workdir=*) workdir=${argument#*=} ;;
    --help* | -help* | -h) help=1 ;;
  esac
  case $previous in
    --config | -config) config=$argument ;;
    --workdir | -workdir) workdir=$argument ;;
  esac
  arguments+=("$argument")
  previous=$argument
done

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

if ((!help)); then
  [[ -n $config ]] || fail "say what to run, e.g. --config=configs/tiny.py"
  if [[ -z $workdir ]]; then
    # configs/small.py:ft -> runs/small-ft
    name=$(basename "${config%%:*}" .py)
    [[ $config == *:* ]] && name+=-${config#*:}
    arguments+=("--workdir=$root/runs/${name//[^[:alnum:]._-]/-}")
  fi
fi

read -ra extras <<<"${CTD_JAX_EXTRAS:-}"
use_environment ${extras[@]+"${extras[@]}"}

command=("$python" -m ctd_jax.train "${arguments[@]}")
if ((dry_run)); then
  show "${command[@]}"
  exit
fi
exec "${command[@]}"
