# shellcheck shell=bash
# Finds or makes the Python environment of a launch script, and installs into it.
#
# Why: every launch script starts with these steps. Source it, then call
#   use_environment [EXTRA...]    sets `python`; installs ctd_jax[EXTRA...]
# in the active environment or .venv; with own_environment=FOLDER, in that one, and
#   keep_memory [EXTRA...]        sets what makes a step on processors faster
#
# What was installed is remembered in <environment>/ctd_jax-installed/<extra>,
# so that a second call costs nothing until setup.py or the clone changes.
# With dry_run=1 nothing is made: the commands are printed.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dry_run=0
python=
own_environment=
# How a run ends that was told to stop and can go on; ctd_jax/training/preemption.py.
# shellcheck disable=SC2034
stopped=75

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

say() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
}

# Prints the comment at the head of the script that runs, for --help.
print_usage() {
  sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
}

# Prints a command in a form that can be pasted into a shell.
show() {
  local line
  printf -v line ' %q' "$@"
  printf '%s\n' "${line:1}"
}

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Prints the interpreter a new environment is made with.
find_python() {
  local name
  if [[ -n ${PYTHON:-} ]]; then
    is_new_enough "$PYTHON" ||
      fail "PYTHON=$PYTHON is not Python 3.11 or newer"
    command -v "$PYTHON"
    return
  fi
  # The version the tests run on first; some of these names may be shims that
  # exist and do not run, hence the trial.
  for name in python3.11 python3.12 python3.13 python3 python; do
    if is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  fail "no Python 3.11 or newer on PATH; install one, or name it: PYTHON=..."
}

# Sets `python` to that of the active environment, or of .venv, made if needed.
find_environment() {
  local active=${VIRTUAL_ENV:-} folder=${own_environment:-$root/.venv} base
  # The base environment of conda is everybody's: nothing is installed there.
  if [[ -z $active && ${CONDA_DEFAULT_ENV:-base} != base ]]; then
    active=${CONDA_PREFIX:-}
  fi
  if [[ -n $active && -z $own_environment ]]; then
    python=$active/bin/python
    is_new_enough "$python" || fail "the active environment $active has no \
Python 3.11 or newer; deactivate it, or activate another"
    return
  fi
  python=$folder/bin/python
  # An interrupted `venv` leaves a python without a pip.
  if [[ -x $folder/bin/pip ]] && is_new_enough "$python"; then
    return
  fi
  base=$(find_python)
  if ((dry_run)); then
    show "$base" -m venv --clear "$folder"
    return
  fi
  say "making a virtual environment in $folder"
  "$base" -m venv --clear "$folder" >&2 ||
    fail "$base -m venv failed (on Debian and Ubuntu: install python3-venv)"
}

# Prints what the stamp of an up-to-date installation contains.
fingerprint() {
  printf '%s %s\n' "$root" "$(cksum <"$root/setup.py")"
}

# Has a run on processors keep the memory of a step for the next one.
#
# Why: XLA asks for the buffers of a step (0.4 GB for two layers of 128 at 32
# queries) each time, and malloc maps what is large and gives it back at once. The
# kernel then clears every page of every step: 100,000 faults, a quarter of the
# time. These are settings of glibc; others ignore them. What is set wins.
keep_memory() {
  [[ " $* " =~ " cuda"|" tpu" ]] && return
  export MALLOC_MMAP_MAX_=${MALLOC_MMAP_MAX_:-0}                     # nothing is mapped,
  export MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-68719476736} # given back
  export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-1}                     # or kept twice.
}

use_environment() {
  local extra stamps missing=0 target=$root started=$SECONDS
  find_environment
  stamps=$(dirname "$(dirname "$python")")/ctd_jax-installed
  for extra in base "$@"; do
    [[ $(cat "$stamps/$extra" 2>/dev/null) == "$(fingerprint)" ]] || missing=1
  done
  ((missing)) || return 0
  if (($#)); then
    target+="[$(IFS=,; printf '%s' "$*")]"
  fi
  # Twice quiet: no warnings either; errors are still printed.
  local install=("$python" -m pip install -qq
    --disable-pip-version-check --editable "$target")
  if ((dry_run)); then
    show "${install[@]}"
    return
  fi
  say "installing ctd_jax and its dependencies${*:+, with $*} (a new \
environment: 1.4 GB, one to three minutes)"
  "${install[@]}" >&2 || fail "the installation failed; see pip's lines above"
  mkdir -p "$stamps"
  for extra in base "$@"; do
    fingerprint >"$stamps/$extra"
  done
  say "installed in $((SECONDS - started)) s"
}
