"""Flag of the folder of compiled functions; imports no JAX."""

from __future__ import annotations

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
