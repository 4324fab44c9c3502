#!/usr/bin/env bash
# Lints and tests the clone this script is in; installs what it needs first.
#
#   ./launch/test.sh [--dry-run] [--fast] [--parity] [PYTEST ARGUMENT...]
#
# e.g. ./launch/test.sh tests/chronology/timelines_test.py -n 0
#
# --fast, for the inner loop: leaves out the site and the tests marked slow, and
# draws fewer cases of hostile text.
# --parity also compares the encoders with the published implementations, side
# by side; it installs torch (1.2 GB more).
#
# Environment (all optional): VIRTUAL_ENV, CONDA_PREFIX, PYTHON as in local.sh;
#   CTD_JAX_SOURCES   folder of source texts: tests then read the real editions
set -euo pipefail

dry_run=0
fast=0
extras=(test)
arguments=()
for argument in "$@"; do
  case $argument in
    --dry-run | --dry_run) dry_run=1 ;;
    --fast)
      fast=1
      arguments+=(-m "not slow")
      export CTD_JAX_FUZZ_PROFILE=fast  # fewer cases of hostile text
      ;;
    --parity)
      extras+=(parity)
      arguments+=(--parity)
      ;;
    *) arguments+=("$argument") ;;
  esac
done

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment "${extras[@]}"
cd "$root"

run() {
  if ((dry_run)); then
    show "$@"
  else
    "$@"
  fi
}

run "$python" -m ruff check .
run "$python" -m ruff format --check .
# The layers of the packages, as pyproject.toml lists them.
run "$python" tests/tools/check_layers.py
# The site: a dead link or an unknown name in it is an error.
((fast)) || NO_MKDOCS_2_WARNING=1 run "$python" -m mkdocs build --quiet \
  --strict
# One file stays on one worker, so that its tests share what they compiled.
run "$python" -m pytest -n 2 --dist loadfile \
  ${arguments[@]+"${arguments[@]}"}
