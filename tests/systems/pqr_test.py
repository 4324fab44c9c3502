"""Pseudo-queries: the file, components, and who writes them.

tests/parity/published_systems_test.py has the ranking, which needs torch.
"""

import json
import os
import re

import numpy as np
import pytest

from ctd_jax.experiments import evaluation_run
from ctd_jax.systems import pqr, pseudo_queries
from ctd_jax_configs import published as config_file
from ctd_jax_datasets import export
from tests import synthetic
from tests.tasks.chat_server import serving
from tests.tools import processes

BENCHMARK = synthetic.benchmark()
IDS = BENCHMARK.record_ids
TEXTS = [record.text for record in BENCHMARK.records]


def entry(record_id, *questions):
  return {"sid": record_id, "generated_queries": list(questions)}


def test_questions_are_stripped_counted_once_and_at_most_20(tmp_path):
  many = [f"問{i}" for i in range(30)]
  path = tmp_path / "q.jsonl"
  entries = [entry("r1", " 甲？", "乙？ ", "甲？", ""), entry(7, *many)]
  path.write_text(
    "".join(f"{json.dumps(e)}\n" for e in [*entries, entry("r2")])
  )
  assert pqr.read_pseudo_queries(path, ["r1", "r2", "r3", "7"]) == {
    "r1": ["甲？", "乙？"],
    "7": many[:20],
    "r2": [],
  }


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("{", "q.jsonl:2: Input data was truncated"),
    ("[]", "q.jsonl:2: Expected `object`"),
    ('{"sid": "r1"}', "q.jsonl:2: Object missing required field `generated_q"),
    ('{"generated_queries": []}', "missing required field `sid`"),
    (
      json.dumps(entry("r9", "甲")),
      "q.jsonl:2: field sid: 'r9' is not a record",
    ),
    (json.dumps(entry("r0", "甲")), "q.jsonl:2: field sid: 'r0' occurs twice"),
    (json.dumps(entry(None, "甲")), "got `null` - at `$.sid`"),
    (json.dumps(entry("r1", 3)), "`int` - at `$.generated_queries[0]`"),
    (
      '{"sid": "r1", "generated_queries": "甲"}',
      "Expected `array`, got `str` - at `$.generated_queries`",
    ),
  ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
  path = tmp_path / "q.jsonl"
  path.write_text(json.dumps(entry("r0", "甲")) + f"\n{line}\n")
  with pytest.raises(ValueError, match=re.escape(message)):
    pqr.read_pseudo_queries(path, ["r0", "r1"])


def test_no_file(tmp_path):
  with pytest.raises(FileNotFoundError, match="pseudo_queries=.*no such file"):
    pqr.read_pseudo_queries(tmp_path / "q.jsonl", IDS)


def test_four_vectors_stay_and_more_become_centres():
  axes = np.eye(5, dtype=np.float32)
  np.testing.assert_array_equal(pqr.cluster_centres(axes[:4]), axes[:4])
  # Four bundles of two, whose centres are known.
  tilted = axes[:4] + 0.1 * axes[4]
  pairs = np.concatenate([tilted, axes[:4] - 0.1 * axes[4]])
  pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
  found = pqr.cluster_centres(pairs.astype(np.float32))
  order = np.argsort(found.argmax(axis=1))
  np.testing.assert_allclose(found[order], axes[:4], atol=1e-6)


@pytest.mark.parametrize("field", ["source", "pseudo_queries"])
def test_what_is_needed_is_named(tmp_path, field):
  config = config_file.get_config("pqr")
  config.pqr.update(source="x", pseudo_queries="y")
  config.pqr[field] = None
  with pytest.raises(ValueError, match=f"config.pqr.{field}: the system pqr"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)


def test_replies_are_read_without_numbers():
  reply = (
    "<think>\n1. 想？\n</think>1. 甲問？\n\n（2）乙問？\n- 丙問？\n"
    " 3、十年丁問？ \n元年何事？\n**4.** 戊問？\n五、己問？\n1.5年何事？"
  )
  questions = ["甲問？", "乙問？", "丙問？", "十年丁問？", "元年何事？"]
  questions += ["戊問？", "己問？", "1.5年何事？"]
  assert pseudo_queries.parse_reply(reply) == questions


@pytest.mark.slow
def test_the_command_asks_every_record_once(tmp_path):
  export.export_benchmark(BENCHMARK, "beir", tmp_path / "beir")

  def answer(messages):
    assert "3個" in messages[0]["content"]
    return "\n".join(f"{i}. {messages[1]['content']}{i}" for i in (1, 2, 3))

  with serving(answer, thinks="aloud") as server:
    arguments = [
      *("-m", "ctd_jax.systems.pseudo_queries"),
      f"--dataset=beir:{tmp_path / 'beir'}",
      f"--workdir={tmp_path / 'w'}",
      *("--model=openai-api/m/m", "--count=3"),
    ]
    about = {"M_API_KEY": "k", "M_BASE_URL": server.url}
    about["INSPECT_CACHE_DIR"] = str(tmp_path / "cache")
    for _ in range(2):  # the second time everything is in the cache
      process = processes.run_python(*arguments, env=os.environ | about)
      assert process.returncode == 0, process.stderr
    assert set(server.answered.values()) == {1}
  assert f"{3 * len(IDS)} pseudo-queries of {len(IDS)}" in process.stdout
  found = pqr.read_pseudo_queries(tmp_path / "w/pseudo_queries.jsonl", IDS)
  assert found == {
    name: [f"{text}{i}" for i in (1, 2, 3)]
    for name, text in zip(IDS, TEXTS, strict=True)
  }
