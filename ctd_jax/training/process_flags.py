"""Flags of commands that train or evaluate; imports no JAX."""

from absl import flags

OFF = "off"
COMPILATION_CACHE = flags.DEFINE_string(
  "compilation_cache",
  None,
  "Folder in which compiled functions are kept for later runs, seen by all "
  f"processes of a run, or {OFF!r}. By default $JAX_COMPILATION_CACHE_DIR, "
  "else ctd_jax/compiled in $XDG_CACHE_HOME or ~/.cache. JAX runs what it "
  "finds there: only you should be able to write to it. Example: "
  "--compilation_cache=/scratch/me/compiled",
)
DISTRIBUTED = flags.DEFINE_bool(
  "distributed",
  None,
  "Join the processes that the cluster has started: tells JAX to read what "
  "Slurm, GKE (xpk) or the metadata of a TPU say of them. By default where "
  "srun started more than one task. Example: --distributed",
)
COORDINATOR = flags.DEFINE_string(
  "coordinator",
  None,
  "By hand: host and port of process 0, the same in every process, with "
  "--num_processes and --process_id. Example: --coordinator=10.0.0.1:9911 "
  "--num_processes=2 --process_id=0",
)
NUM_PROCESSES = flags.DEFINE_integer(
  "num_processes", None, "By hand: how many processes there are."
)
PROCESS_ID = flags.DEFINE_integer(
  "process_id", None, "By hand: which one this is, from 0."
)
