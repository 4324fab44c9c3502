#!/usr/bin/env bash
# Trains and evaluates one config on all hosts of a Cloud TPU VM, pod or slice.
#
#   TPU_NAME=pod TPU_ZONE=us-central2-b ./launch/tpu_vm.sh \
#     --config=configs/bert.py --workdir=/mnt/shared/runs/bert [--dry-run] ...
#
# Run it where gcloud is set up. Every host needs a clone, e.g. by
#   gcloud compute tpus tpu-vm ssh NAME --zone=ZONE --worker=all \
#     --command='git clone URL ctd_jax'
# and --workdir must be on a file system that all hosts mount. All arguments but
# --dry-run go to launch/local.sh there, which installs what it needs. The
# processes find each other through the metadata of the TPU.
#
# Environment:
#   TPU_NAME, TPU_ZONE   of the TPU; required
#   TPU_PROJECT          default: gcloud's project
#   TPU_CLONE            folder of the clone on the hosts; default: ctd_jax
#   CTD_JAX_EXTRAS       extras to install; default: "tpu"
#   CTD_JAX_LOCKED       1: install the versions of constraints/, by hash
#   CTD_JAX_RESTARTS     number of restarts; default: 20
#
# Restarts: on SIGTERM the run saves its state and exits with status 75 on all
# hosts, and each starts it again. If a TPU is preempted, create it and its
# clone again; the same command then continues from the last checkpoint.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=launch/environment.sh
source "$here/environment.sh"
# shellcheck source=launch/arguments.sh
source "$here/arguments.sh"

read_arguments "$@"
[[ -n ${TPU_NAME:-} && -n ${TPU_ZONE:-} ]] ||
  fail "name the TPU: TPU_NAME=... TPU_ZONE=..."
[[ -n $workdir ]] ||
  fail "give --workdir, a folder that all hosts see"

remote=$(show cd "${TPU_CLONE:-ctd_jax}")
remote+=" && $(show env CTD_JAX_EXTRAS="${CTD_JAX_EXTRAS-tpu}" \
  ${CTD_JAX_LOCKED:+CTD_JAX_LOCKED="$CTD_JAX_LOCKED"} \
  CTD_JAX_RESTARTS="${CTD_JAX_RESTARTS:-20}" \
  ./launch/local.sh --distributed "${arguments[@]}")"
command=(gcloud compute tpus tpu-vm ssh "$TPU_NAME" --zone="$TPU_ZONE"
  ${TPU_PROJECT:+"--project=$TPU_PROJECT"} --worker=all --command="$remote")
if ((dry_run)); then
  show "${command[@]}"
  exit
fi
exec "${command[@]}"
