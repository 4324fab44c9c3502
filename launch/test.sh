#!/usr/bin/env bash
# Lints and tests the clone this script is in; installs what it needs first.
#
#   ./launch/test.sh [--dry-run] [--all] [--parity] [--tf | --beam] [PYTEST ARGUMENT...]
#
# e.g. ./launch/test.sh tests/chronology/timelines_test.py -n 0
#
# By default it runs lint, layers and every test not marked slow.
# --all also builds the site and runs the tests marked slow, those in a browser
# among them, and draws more cases of hostile text.
# --parity also compares the encoders with the published implementations, side
# by side; it installs torch (1.2 GB more).
# --tf runs the tests that read data sets with TensorFlow, and nothing else, in
# an environment of their own, .venv-tf (3 GB): in the other one, the tests show
# that nothing needs TensorFlow.
# --beam runs the tests that start Apache Beam, in .venv-beam: it holds
# other packages back.
#
# Environment (all optional): VIRTUAL_ENV, CONDA_PREFIX, PYTHON and
#   CTD_JAX_LOCKED as in local.sh; further
#   CTD_JAX_SOURCES   folder of source texts: tests then read the real editions
#   CTD_JAX_OUTSIDE   folder of texts and calendars from outside, likewise
set -euo pipefail

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

all=0
parity=0
own_tests=()
extras=(test)
arguments=()
for argument in "$@"; do
  case $argument in
    --help | -h)
      print_usage
      exit
      ;;
    --dry-run | --dry_run) dry_run=1 ;;
    --all) all=1 ;;
    --parity)
      parity=1
      extras+=(parity)
      arguments+=(--parity)
      ;;
    --tf)
      own_tests=(tests/data)
      extras+=(tf)
      arguments+=(-m tf)
      # shellcheck disable=SC2034
      own_environment=${root:?}/.venv-tf
      ;;
    --beam)
      own_tests=(tests/data tests/utils)
      extras+=(beam dask)
      arguments+=(-m beam)
      # shellcheck disable=SC2034
      own_environment=${root:?}/.venv-beam
      ;;
    *) arguments+=("$argument") ;;
  esac
done

use_environment "${extras[@]}"
cd "$root"

run() {
  if ((dry_run)); then
    show "$@"
  else
    "$@"
  fi
}

if ((${#own_tests[@]})); then
  run "$python" -m pytest "${own_tests[@]}" "${arguments[@]}"
  exit
fi
run "$python" -m ruff check .
run "$python" -m ruff format --check .
# The layers of the packages, as pyproject.toml lists them.
run "$python" tests/tools/check_layers.py
if ((all)); then
  # The site: a dead link or an unknown name in it is an error.
  NO_MKDOCS_2_WARNING=1 run "$python" -m mkdocs build --quiet --strict
else
  arguments=(-m "not slow" ${arguments[@]+"${arguments[@]}"})
  export CTD_JAX_FUZZ_PROFILE=fast  # fewer cases of hostile text
fi
# One file stays on one worker, so that its tests share what they compiled.
run "$python" -m pytest -n 2 --dist loadfile \
  ${arguments[@]+"${arguments[@]}"}

left_out=()
((all)) || left_out+=("tests marked slow, the site and the browser (--all)")
((parity)) || left_out+=("comparisons with published code (--parity)")
left_out+=("TensorFlow (--tf)" "Apache Beam (--beam)")
printf 'Left out: %s\n' "${left_out[@]}"
