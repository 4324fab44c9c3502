"""Fixtures of the tests of systems."""

from tests.training.conftest import quick_compile  # noqa: F401
