"""Commands of Chronocept: fast help, and literals that avoid imports."""

import subprocess
import sys

from ctd_jax.tasks.chronocept import fit_validity, fits
from ctd_jax_datasets.chronocept import sample_records

SLOW_PACKAGES = "jax matplotlib scipy sklearn tensorflow_datasets transformers"


def test_help_does_not_wait_for_slow_packages():
  module = "ctd_jax.tasks.chronocept.fit_validity"
  code = f"import sys, {module}; print(*sys.modules)"
  loaded = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  ).stdout.split()
  assert not set(SLOW_PACKAGES.split()) & set(loaded)


def test_literals_of_flags_are_those_of_the_library():
  assert tuple(fits.FAMILIES) == fit_validity.FAMILY_NAMES
  assert fit_validity.LOG_BASE == sample_records.LOG_BASE
