#!/usr/bin/env bash
# Lints and tests this clone; installs what it needs first.
#
#   ./launch/test.sh [--dry-run] [--all] [--parity] [--tf | --beam] [PYTEST ARGUMENT...]
#
# e.g. ./launch/test.sh tests/chronology/timelines_test.py -n 0
#
# By default it runs lint, layers and every test not marked slow.
# --all also builds the site, runs the tests marked slow, including those in a
# browser, and draws more cases of hostile text.
# --parity also compares the encoders with the published implementations; it
# installs torch (1.2 GB more).
# --tf runs only the tests that read data sets with TensorFlow, in a separate
# environment, .venv-tf (3 GB); the other tests show that nothing else needs it.
# --beam runs only the tests that start Apache Beam, in .venv-beam, because Beam
# needs older versions of other packages.
#
# Environment (all optional): VIRTUAL_ENV, CONDA_PREFIX, PYTHON and
#   CTD_JAX_LOCKED as in local.sh, and
#   CTD_JAX_SOURCES   folder of source texts: tests then read real editions
#   CTD_JAX_OUTSIDE   folder of other texts and calendars, likewise
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
# The layers of packages are listed in pyproject.toml.
run "$python" tests/tools/check_layers.py
if ((all)); then
  # A dead link or an unknown name in the site is an error.
  NO_MKDOCS_2_WARNING=1 run "$python" -m mkdocs build --quiet --strict
else
  arguments=(-m "not slow" ${arguments[@]+"${arguments[@]}"})
  export CTD_JAX_FUZZ_PROFILE=fast  # fewer cases of hostile text
fi
# Each file stays on one worker, so that its tests share compiled functions.
run "$python" -m pytest -n 2 --dist loadfile \
  ${arguments[@]+"${arguments[@]}"}

left_out=()
((all)) || left_out+=("tests marked slow, the site and the browser (--all)")
((parity)) || left_out+=("comparisons with published code (--parity)")
left_out+=("TensorFlow (--tf)" "Apache Beam (--beam)")
printf 'Left out: %s\n' "${left_out[@]}"
