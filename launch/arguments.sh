# shellcheck shell=bash
# Reads the command line of a launch script.
#
# Why: every script that starts a run takes the flags of ctd_jax.train, and one
# of its own. Source it and environment.sh, then call
#   read_arguments "$@"   sets dry_run, config, workdir and arguments (all flags
#                         but --dry-run); a missing --config ends it, and so
#                         does --help
#   name_workdir          without --workdir, adds <clone>/runs/<config>

# shellcheck disable=SC2034
dry_run=0
config=
workdir=
arguments=()

read_arguments() {
  local argument previous=
  for argument in "$@"; do
    case $argument in
      --dry-run | --dry_run) dry_run=1 && continue ;;
      --config=* | -config=*) config=${argument#*=} ;;
      --workdir=* | -workdir=*) workdir=${argument#*=} ;;
      --help* | -help* | -h)
        print_usage
        printf '\nFlags of the run: python -m ctd_jax.train --help\n'
        exit
        ;;
    esac
    case $previous in
      --config | -config) config=$argument ;;
      --workdir | -workdir) workdir=$argument ;;
    esac
    arguments+=("$argument")
    previous=$argument
  done
  [[ -n $config ]] ||
    fail "say what to run, e.g. --config=configs/tiny.py"
}

name_workdir() {
  local name
  if [[ -n $workdir ]]; then
    return
  fi
  # configs/small.py:ft -> runs/small-ft
  name=$(basename "${config%%:*}" .py)
  [[ $config == *:* ]] && name+=-${config#*:}
  workdir=${root:?}/runs/${name//[^[:alnum:]._-]/-}
  arguments+=("--workdir=$workdir")
}
