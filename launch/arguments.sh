# shellcheck shell=bash
# Reads the command line of a launch script: the flags of ctd_jax.train, and
# --dry-run. Source it and environment.sh, then call
#   read_arguments "$@"   sets dry_run, config, workdir and arguments (all flags
#                         but --dry-run); --help and a missing --config exit
#   name_workdir          without --workdir, adds <clone>/runs/<config>
#   name_program          sets program: "ablate" with a flag of that command
#   name_mounts           sets mounts to the folders that an image must see

# shellcheck disable=SC2034
dry_run=0
config=
workdir=
arguments=()
program=train
mounts=

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

name_program() {
  local argument
  for argument in "${arguments[@]}"; do
    case $argument in
      --grid | --grid=* | --methods | --methods=* | --seeds | --seeds=* | \
        --collect)
        program=ablate
        ;;
    esac
  done
}

# Paths are the same inside the image. Mounts must exist, so folders are made.
name_mounts() {
  local folder folders
  read -ra folders <<<"${CTD_JAX_MOUNTS:-}"
  for folder in "$workdir" "${TFDS_DATA_DIR:-}" "${CTD_JAX_SOURCES:-}" \
    ${folders[@]+"${folders[@]}"}; do
    # Buckets are not mounted.
    [[ -n $folder && $folder != *://* ]] || continue
    [[ $folder == /* ]] || fail "$folder: an image needs whole paths"
    ((dry_run)) || mkdir -p "$folder"
    mounts+=${mounts:+,}$folder:$folder
  done
}
