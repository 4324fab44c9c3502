"""What tests of chat models share: no waiting, and a cache of their own."""

import pytest


@pytest.fixture(autouse=True)
def inspect_environment(tmp_path, monkeypatch):
  monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
  monkeypatch.setenv("INSPECT_DISPLAY", "none")
  monkeypatch.setenv("M_API_KEY", "k")
  monkeypatch.setattr(
    "inspect_ai.model._retry.wait_exponential_jitter",
    lambda **unused: lambda state: 0.0,
  )
