#!/usr/bin/env bash
# Trains and evaluates one config as a workload on GKE, through xpk.
#
#   XPK_CLUSTER=tpus XPK_TPU_TYPE=v5litepod-16 CTD_JAX_IMAGE=PLACE/ctd_jax:tpu \
#     ./launch/xpk.sh --config=configs/bert.py --workdir=/mnt/runs/bert \
#     [--dry-run] ...
#
# Run it where xpk is set up. --workdir must be on storage that xpk has attached
# to the cluster. The processes find each other through GKE's variables.
#
# With CTD_JAX_IMAGE every pod runs `ctd-jax train` of that image, with all
# arguments but --dry-run. Without it, each pod installs 1.4 GB: xpk copies
# the clone, which must not contain an environment, onto a base image, and the
# arguments go to launch/local.sh.
#
# Environment:
#   XPK_CLUSTER, XPK_TPU_TYPE   required
#   CTD_JAX_IMAGE        image of the Dockerfile's target tpu, in a registry
#                        that the cluster pulls from; has its code and configs
#   XPK_WORKLOAD         name of the workload; default: name of the workdir
#   XPK_SLICES           slices of that type; default: 1
#   XPK_OPTIONS          more options for `xpk workload create`, e.g.
#                        "--zone=us-east5-a --spot"
#   CTD_JAX_RESTARTS     number of restarts; default: 20
#
# Without CTD_JAX_IMAGE also:
#   XPK_IMAGE            base image; default: python:3.11
#   CTD_JAX_EXTRAS       extras to install; default: "tpu"
#   CTD_JAX_LOCKED       1: install the versions of constraints/, by hash
#
# Restarts: a pod that must stop gets SIGTERM. The run saves its state and exits
# with status 75, and the workload starts again and continues. xpk also restarts
# failures that it blames on the machine.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=launch/environment.sh
source "$here/environment.sh"
# shellcheck source=launch/arguments.sh
source "$here/arguments.sh"

read_arguments "$@"
[[ -n ${XPK_CLUSTER:-} && -n ${XPK_TPU_TYPE:-} ]] ||
  fail "name the cluster and its TPUs: XPK_CLUSTER=... XPK_TPU_TYPE=..."
[[ -n $workdir ]] || fail "give --workdir, a folder that all pods see"

name=$(basename "$workdir" | tr '[:upper:]_.' '[:lower:]--')
read -ra options <<<"${XPK_OPTIONS:-}"
if [[ -n ${CTD_JAX_IMAGE:-} ]]; then
  image=(--docker-image="$CTD_JAX_IMAGE")
  pod=$(show ctd-jax train --distributed "${arguments[@]}")
else
  image=(--base-docker-image="${XPK_IMAGE:-python:3.11}" --script-dir="$root")
  pod=$(show env CTD_JAX_EXTRAS="${CTD_JAX_EXTRAS-tpu}" \
    ${CTD_JAX_LOCKED:+CTD_JAX_LOCKED="$CTD_JAX_LOCKED"} \
    ./launch/local.sh --distributed "${arguments[@]}")
fi
command=(xpk workload create
  --cluster="$XPK_CLUSTER"
  --workload="${XPK_WORKLOAD:-$name}"
  --tpu-type="$XPK_TPU_TYPE"
  --num-slices="${XPK_SLICES:-1}"
  "${image[@]}"
  --max-restarts="${CTD_JAX_RESTARTS:-20}"
  --restart-on-exit-codes="$stopped"
  --termination-grace-period-seconds=180
  ${options[@]+"${options[@]}"}
  --command="$pod")
if ((dry_run)); then
  show "${command[@]}"
  exit
fi
exec "${command[@]}"
