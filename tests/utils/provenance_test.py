"""The commit of the code, in a checkout and without one."""

import shutil

from ctd_jax.utils import files


def test_without_a_checkout_the_commit_is_that_of_the_image(
  monkeypatch, tmp_path
):
  copy = tmp_path / "site" / "ctd_jax" / "utils" / "provenance.py"
  copy.parent.mkdir(parents=True)
  shutil.copy(files.__file__, copy)
  monkeypatch.setattr(files, "__file__", str(copy))
  monkeypatch.delenv("CTD_JAX_COMMIT", raising=False)
  assert files.code_commit() == ""
  monkeypatch.setenv("CTD_JAX_COMMIT", "abc123")
  assert files.code_commit() == "abc123"
  # Without git at all, as in the image.
  monkeypatch.setenv("PATH", str(tmp_path))
  assert files.code_commit() == "abc123"
