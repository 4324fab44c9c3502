"""Plots: systems in their colours, events and placeholders told apart."""

import matplotlib.image
import numpy as np
import pytest

from ctd_jax.evaluation import plots, protocol
from ctd_jax.utils.output import COLOURS


def has_colour(image, colour):
  rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
  return np.any(np.all(np.abs(image[..., :3] - rgb) < 0.01, axis=-1))


def test_hit_by_group(tmp_path):
  reigns = {f"q{i}": i % 3 + 1 for i in range(60)}
  values = {
    system: {query: float(i % step == 0) for i, query in enumerate(reigns)}
    for system, step in (("BM25", 2), ("CTD", 5))
  }
  path = tmp_path / "plots" / "hit.png"
  plots.plot_hit_by_group(
    values, reigns, ["Yin", "Huan", "Zhuang"], path, "mini, test", "reign"
  )
  image = matplotlib.image.imread(path)
  assert image.shape[1] >= 900
  assert all(has_colour(image, colour) for colour in COLOURS[:2])
  assert [file.name for file in path.parent.iterdir()] == ["hit.png"]


def test_nothing_to_plot_is_refused(tmp_path):
  path = tmp_path / "x.png"
  with pytest.raises(ValueError, match="nothing to plot"):
    plots.plot_hit_by_group({}, {}, [], path, "none", "reign")
  with pytest.raises(ValueError, match="no curve of a training run"):
    plots.plot_training_curves({"x": ([1], [2.0])}, path, "none")


def table(event, placeholder):
  names = ["hit@1", *protocol.FIRST_KIND_BY_MEASURE]
  values = {
    name: {"q": value}
    for name, value in zip(names, (1.0, event, placeholder), strict=True)
  }
  families = {"q": ("all", "window", "event_window")}
  return protocol.PerQueryScores(
    "s", "T0", "x", "test", protocol.OFFICIAL_MODE, values, families
  )


@pytest.mark.parametrize(("event", "full"), [(1.0, 0.5), (0.0, 0.1)])
def test_an_event_is_full_and_a_placeholder_hatched(tmp_path, event, full):
  path = tmp_path / "cells.png"
  plots.plot_first_record_kinds([table(event, 1 - event)], path, "title")
  image = matplotlib.image.imread(path)
  rgb = [int(COLOURS[0][i : i + 2], 16) / 255 for i in (1, 3, 5)]
  same = np.all(np.abs(image[..., :3] - rgb) < 0.02, axis=-1)
  bar = same[200:300, 800:900].mean()
  assert bar > 0.99 if event else 0.02 < bar < full * 8


def test_training_curves(tmp_path):
  steps = list(range(20, 200, 20))
  curves = {
    "loss": (steps, [9.0 - step / 50 for step in steps]),
    "learning_rate": (steps, [1e-3] * len(steps)),
    "speed/steps_per_second": (steps, [3.0] * len(steps)),
    "batch_hit@1": (steps, [0.5] * len(steps)),  # not drawn
  }
  path = tmp_path / "training.png"
  plots.plot_training_curves(curves, path, "a run")
  three_panels = matplotlib.image.imread(path)
  assert has_colour(three_panels, COLOURS[0])
  curves["speed/tokens_per_second"] = (steps, [9e3] * len(steps))
  plots.plot_training_curves(curves, path, "a run")
  # A fourth panel needs another row.
  assert matplotlib.image.imread(path).shape[0] > three_panels.shape[0]
