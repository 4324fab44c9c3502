"""Pseudo-queries: the file, components, ranking, and who writes them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval import record_components
from ctd_jax.systems import evaluation_run, pqr, pseudo_queries, registry
from ctd_jax_configs import pqr as config_file
from ctd_jax_datasets import export
from tests import synthetic
from tests.models import published_folder
from tests.tasks.chat_server import serving

# Most of the time goes into compilation.
pytestmark = pytest.mark.usefixtures("quick_compile")
BENCHMARK = synthetic.benchmark()
IDS = BENCHMARK.record_ids
TEXTS = [record.text for record in BENCHMARK.records]
QUERIES = [query.text for query in BENCHMARK.queries["test"]]


def write(path, entries):
  path.write_text("".join(f"{json.dumps(e)}\n" for e in entries))
  return path


def entry(record_id, *questions):
  return {"sid": record_id, "generated_queries": list(questions)}


def test_questions_are_stripped_counted_once_and_at_most_20(tmp_path):
  many = [f"問{i}" for i in range(30)]
  path = write(
    tmp_path / "q.jsonl",
    [entry("r1", " 甲？", "乙？ ", "甲？", ""), entry(7, *many), entry("r2")],
  )
  assert pqr.read_pseudo_queries(path, ["r1", "r2", "r3", "7"]) == {
    "r1": ["甲？", "乙？"],
    "7": many[:20],
    "r2": [],
  }


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("{", "q.jsonl:2: not JSON"),
    ("[]", "q.jsonl:2: expected an object"),
    ('{"sid": "r1"}', "q.jsonl:2: no field generated_queries"),
    ('{"generated_queries": []}', "q.jsonl:2: no field sid"),
    (json.dumps(entry("r9", "甲")), "q.jsonl:2: field sid: 'r9' is no record"),
    (json.dumps(entry("r0", "甲")), "q.jsonl:2: field sid: 'r0' stands twice"),
    (json.dumps(entry(None, "甲")), "field sid: expected a record id"),
    (json.dumps(entry("r1", 3)), "field generated_queries: expected a list of"),
    (
      '{"sid": "r1", "generated_queries": "甲"}',
      "field generated_queries: expected a list of",
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
  np.testing.assert_array_equal(
    record_components.cluster_centres(axes[:4]), axes[:4]
  )
  # Four bundles of two, whose centres are known.
  tilted = axes[:4] + 0.1 * axes[4]
  pairs = np.concatenate([tilted, axes[:4] - 0.1 * axes[4]])
  pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
  found = record_components.cluster_centres(pairs.astype(np.float32))
  order = np.argsort(found.argmax(axis=1))
  np.testing.assert_allclose(found[order], axes[:4], atol=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("encoder")
  return published_folder.write(path, [*TEXTS, *QUERIES, "問"])


@pytest.mark.slow
def test_ranking_by_the_closest_component(folder, tmp_path):
  # Every third record has one question, two of them, and many.
  asked = {
    record_id: [TEXTS[i][: 3 + j] for j in range((0, 1, 2, 7)[i % 4])]
    for i, record_id in enumerate(IDS)
  }
  entries = [entry(name, *texts) for name, texts in asked.items() if texts]
  config = config_file.get_config(str(folder))
  config.pqr.pseudo_queries = str(write(tmp_path / "q.jsonl", entries))
  config.pqr.update(pooling="mean", query_prefix="問", record_length=16)
  config.pqr.query_length = 12
  system = registry.make_systems(BENCHMARK, config)["pqr"]
  assert (system.track, system.score_mode) == ("T0", "pseudo_queries")

  def vectors(texts, prefix, length):
    found = TextEncoder.load(
      folder,
      pooling="mean",
      normalize=False,
      max_length=length,
      prefix=prefix,
    ).encode(texts)
    return found / np.linalg.norm(found, axis=1, keepdims=True)

  queries = vectors(QUERIES, "問", 12)
  own = vectors(TEXTS, "", 16)
  flat = [text for name in IDS for text in asked[name]]
  pseudo = iter(vectors(flat, "問", 16))
  scores = np.zeros((len(QUERIES), len(IDS)))
  for column, name in enumerate(IDS):
    parts = np.array([next(pseudo) for _ in asked[name]] or [own[column]])
    if len(parts) > 4:
      parts = record_components.cluster_centres(parts)
    scores[:, column] = (queries @ parts.T).max(axis=1)
  everything = {"all": np.ones(len(IDS), bool)}
  indices, values = system.search(QUERIES, 5, everything)["all"]
  best = -np.sort(-scores, axis=1)[:, :5]
  np.testing.assert_allclose(values, best, rtol=1e-5)
  again = np.take_along_axis(scores, indices, axis=1)
  np.testing.assert_allclose(values, again, rtol=1e-5)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "sklearn", None)
  with pytest.raises(ValueError, match=re.escape("'ctd_jax[baselines]'")):
    record_components.cluster_centres(np.eye(5, dtype=np.float32))


@pytest.mark.parametrize("field", ["source", "pseudo_queries"])
def test_what_is_needed_is_named(tmp_path, field):
  config = config_file.get_config()
  config.pqr.update(source="x", pseudo_queries="y")
  config.pqr[field] = None
  with pytest.raises(ValueError, match=f"config.pqr.{field}: the system pqr"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)


def test_the_config_reads_e5_with_its_prefixes_and_others_without():
  c = config_file.get_config()
  assert c.eval.baselines == ("pqr",)
  assert (c.pqr.source, c.pqr.pooling) == ("e5_small", "mean")
  c = config_file.get_config("bge_m3")
  assert (c.pqr.source, c.pqr.pooling, c.pqr.query_prefix) == (
    "bge_m3",
    "cls",
    "",
  )


def test_replies_are_read_without_numbers():
  reply = (
    "<think>\n1. 想？\n</think>1. 甲問？\n\n（2）乙問？\n- 丙問？\n"
    " 3、十年丁問？ \n元年何事？\n**4.** 戊問？\n五、己問？\n1.5年何事？"
  )
  assert pseudo_queries.parse_reply(reply) == [
    "甲問？",
    "乙問？",
    "丙問？",
    "十年丁問？",
    "元年何事？",
    "戊問？",
    "己問？",
    "1.5年何事？",
  ]


@pytest.mark.slow
def test_the_command_asks_every_record_once(tmp_path):
  export.export_benchmark(BENCHMARK, "beir", tmp_path / "beir")

  def answer(messages):
    assert "3個" in messages[0]["content"]
    return "\n".join(f"{i}. {messages[1]['content']}{i}" for i in (1, 2, 3))

  def busy(text, attempt):
    return "busy" if attempt == 1 and "無事" in text else ""

  with serving(answer, busy) as server:
    arguments = [
      *(sys.executable, "-m", "ctd_jax.systems.pseudo_queries"),
      f"--dataset=beir:{tmp_path / 'beir'}",
      f"--workdir={tmp_path / 'w'}",
      f"--base_url={server.url}",
      *("--model=m", "--api_key=k", "--count=3"),
    ]
    for _ in range(2):  # the second time everything is in the journal
      process = subprocess.run(
        arguments, capture_output=True, text=True, check=False
      )
      assert process.returncode == 0, process.stderr
    assert set(server.answered.values()) == {1}
  assert f"{3 * len(IDS)} pseudo-queries of {len(IDS)}" in process.stdout
  found = pqr.read_pseudo_queries(tmp_path / "w/pseudo_queries.jsonl", IDS)
  assert found == {
    name: [f"{text}{i}" for i in (1, 2, 3)]
    for name, text in zip(IDS, TEXTS, strict=True)
  }
