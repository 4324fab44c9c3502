"""The notebooks of the site run from beginning to end."""

import pathlib

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["search", "dating", "agent"])
def test_a_notebook_runs(tmp_path, name, monkeypatch):
  monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # compiles faster
  notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
  client = nbclient.NotebookClient(
    notebook,
    timeout=300,
    kernel_name="python3",
    resources={"metadata": {"path": str(tmp_path)}},
  )
  client.execute()  # raises with the cell at fault


@pytest.mark.parametrize("name", ["search", "dating", "agent"])
def test_a_notebook_shows_what_it_printed(name):
  notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
  cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
  assert all(cell.outputs for cell in cells if "print(" in cell.source)
  for cell in cells:
    kinds = {output.output_type for output in cell.outputs}
    assert "error" not in kinds
    assert "/tmp/" not in str(cell.outputs)
