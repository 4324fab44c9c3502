# shellcheck shell=bash
# Finds or makes the Python environment of a launch script; installs into it.
# Source it, then call
#   use_environment [EXTRA...]    sets `python`; installs ctd_jax[EXTRA...]
# It uses the active environment or .venv, or own_environment=FOLDER.
#
# <environment>/ctd_jax-installed/<extra> records what is installed, so a second
# call installs nothing until setup.py or the clone changes. With dry_run=1 it
# only prints the commands. CTD_JAX_LOCKED=1 installs the versions of
# constraints/ and checks their hashes.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dry_run=0
python=
own_environment=
locks=()
# Exit status of a stopped run that can resume; see ctd_jax/training/devices.py.
# shellcheck disable=SC2034
stopped=75

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

say() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
}

# Prints the comment at the head of the running script, for --help.
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

# Prints the interpreter for a new environment.
find_python() {
  local name
  if [[ -n ${PYTHON:-} ]]; then
    is_new_enough "$PYTHON" ||
      fail "PYTHON=$PYTHON is not Python 3.11 or newer"
    command -v "$PYTHON"
    return
  fi
  # First the version that the tests use. Some of these names may be shims that
  # exist but do not run, so each is tried.
  for name in python3.11 python3.12 python3.13 python3 python; do
    if is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  fail "no Python 3.11 or newer on PATH; install one, or name it: PYTHON=..."
}

# Sets `python`: of the active environment, else of .venv, made if needed.
find_environment() {
  local active=${VIRTUAL_ENV:-} folder=${own_environment:-$root/.venv} base
  # Conda's base environment is shared: nothing is installed there.
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

is_locked() {
  [[ ${CTD_JAX_LOCKED:-0} != 0 ]]
}

# Sets `locks` to the files of constraints/ that lock ctd_jax[EXTRA...].
find_locks() {
  local extra interpreter=$python name head folder=$root/constraints
  [[ -x $python ]] || interpreter=$(find_python)
  name=$("$interpreter" -c \
    'import sys; print("py%d.%d" % sys.version_info[:2])')
  [[ -f $folder/$name.txt ]] ||
    fail "CTD_JAX_LOCKED: no $name.txt in $folder; name a Python that is \
locked: PYTHON=..."
  locks=("--requirement=$folder/$name.txt")
  read -r head <"$folder/$name.txt"  # names the extras
  for extra in "$@"; do
    if [[ -f $folder/$name-$extra.txt ]]; then
      locks+=("--requirement=$folder/$name-$extra.txt")
    elif [[ $head != *[[,]"$extra"[],]* ]]; then
      fail "CTD_JAX_LOCKED: the extra $extra is not locked; see \
tests/tools/lock_requirements.py"
    fi
  done
}

# Prints the stamp of an up-to-date installation.
fingerprint() {
  local sources=("$root/setup.py")
  is_locked && sources+=("$root"/constraints/*.txt)
  printf '%s %s\n' "$root" "$(cat "${sources[@]}" | cksum)"
}

pip_install() {
  # -qq hides warnings too, but not errors.
  local command=("$python" -m pip install -qq
    --disable-pip-version-check "$@")
  if ((dry_run)); then
    show "${command[@]}"
    return
  fi
  "${command[@]}" >&2 || fail "the installation failed; see pip's lines above"
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
  ((dry_run)) || say "installing ctd_jax and its dependencies${*:+, with $*} \
(a new environment: 1.4 GB, one to three minutes)"
  if is_locked; then
    find_locks "$@"
    # Build tools first, so that pip does not fetch other versions of them.
    pip_install --require-hashes "--requirement=$root/constraints/build.txt"
    pip_install --require-hashes --no-build-isolation "${locks[@]}"
    pip_install --no-build-isolation --no-deps --editable "$target"
  else
    pip_install --editable "$target"
  fi
  ((dry_run)) && return
  mkdir -p "$stamps"
  for extra in base "$@"; do
    fingerprint >"$stamps/$extra"
  done
  say "installed in $((SECONDS - started)) s"
}
