"""Commands of Chronocept: fast help, and literals that avoid imports."""

import subprocess
import sys

from ctd_jax.tasks.chronocept import fit_validity
from ctd_jax.tasks.chronocept.curves import curve_families
from ctd_jax_datasets.chronocept import samples

COMMANDS = (
  "fit_validity",
  "compare",
  "annotation.agreement",
  "annotation.prefilter",
  "annotation.prompts",
)
SLOW_PACKAGES = (
  "jax",
  "matplotlib",
  "scipy",
  "sklearn",
  "tensorflow_datasets",
  "transformers",
)


def test_help_does_not_wait_for_slow_packages():
  modules = ", ".join(f"ctd_jax.tasks.chronocept.{name}" for name in COMMANDS)
  code = f"import sys, {modules}; print(*sys.modules)"
  loaded = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  ).stdout.split()
  assert not set(SLOW_PACKAGES) & set(loaded)


def test_literals_of_flags_are_those_of_the_library():
  assert tuple(curve_families.FAMILIES) == fit_validity.FAMILY_NAMES
  assert fit_validity.LOG_BASE == samples.LOG_BASE
