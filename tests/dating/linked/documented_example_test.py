"""The example of the page on models: train, save, apply, explain."""

import pathlib
import re

import numpy as np
import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "concepts" / "models.md"


@pytest.mark.slow
def test_the_documented_example_runs(tmp_path, monkeypatch, capsys):
  section = PAGE.read_text(encoding="utf-8").split("## Linked dater")[1]
  blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
  assert len(blocks) == 2
  monkeypatch.chdir(tmp_path)
  names = {}
  exec("".join(blocks), names)
  assert (tmp_path / "dater" / "linked_dater.json").exists()
  rows = np.flatnonzero(names["undated"])
  np.testing.assert_allclose(
    names["again"].predict().log_p(rows), names["log_p"], atol=1e-4
  )
  printed = capsys.readouterr().out
  assert re.search(r"^[+-]\d+\.\d\d parallels ", printed, re.MULTILINE)
  assert re.search(r"^[+-]\d+\.\d\d cited \(", printed, re.MULTILINE)
