"""Commands of Chronocept: fast help, and literals that avoid imports."""

from ctd_jax.tasks.chronocept import fit_validity, fits
from ctd_jax_datasets.chronocept import sample_records
from tests.tools import processes


def test_help_does_not_wait_for_slow_packages():
  slow = "jax matplotlib scipy sklearn tensorflow_datasets transformers"
  loaded = processes.list_loaded_modules(
    "import ctd_jax.tasks.chronocept.fit_validity"
  )
  assert not loaded & set(slow.split())


def test_literals_of_flags_are_those_of_the_library():
  assert tuple(fits.FAMILIES) == fit_validity.FAMILY_NAMES
  assert fit_validity.LOG_BASE == sample_records.LOG_BASE
