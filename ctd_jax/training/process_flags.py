"""Flags of commands that train or evaluate; imports no JAX."""

from absl import flags

OFF = "off"
COMPILATION_CACHE = flags.DEFINE_string(
  "compilation_cache",
  None,
  "Folder that keeps compiled functions for later runs, visible to all "
  f"processes of a run, or {OFF!r}. Default: $JAX_COMPILATION_CACHE_DIR, else "
  "ctd_jax/compiled in $XDG_CACHE_HOME or ~/.cache. JAX runs what it finds "
  "there, so only you should be able to write to it. Example: "
  "--compilation_cache=/scratch/me/compiled",
)
DISTRIBUTED = flags.DEFINE_bool(
  "distributed",
  None,
  "Join the processes that the cluster has started, as Slurm, GKE (xpk) or "
  "the TPU's metadata describe them. Default: yes if srun started more than "
  "one task. Example: --distributed",
)
COORDINATOR = flags.DEFINE_string(
  "coordinator",
  None,
  "For manual set-up: host and port of process 0, the same in every process. "
  "Also needs --num_processes and --process_id. Example: "
  "--coordinator=10.0.0.1:9911 --num_processes=2 --process_id=0",
)
NUM_PROCESSES = flags.DEFINE_integer(
  "num_processes", None, "For manual set-up: number of processes."
)
PROCESS_ID = flags.DEFINE_integer(
  "process_id", None, "For manual set-up: number of this process, from 0."
)
