"""Export of a run: the folder ranks as the run, and says what others leave."""

import dataclasses
import json
import pathlib
import re
import shutil
from typing import NamedTuple

import huggingface_hub
import numpy as np
import pytest

from ctd_jax import Retriever
from ctd_jax.evaluation import protocol, results, scoring
from ctd_jax.experiments import training_run
from ctd_jax.models.pretrained import folders
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval import dense, run_export, trained_system
from ctd_jax.training import experiment, run_folder
from tests import synthetic
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")
BENCHMARK = synthetic.benchmark()
RECORDS = [record.text for record in BENCHMARK.records]
ASKED = [query.text for query in BENCHMARK.queries["test"]]
QUERY_LENGTH, RECORD_LENGTH = 9, 10  # tokens
EVENT_ONLY, OFFICIAL = "neg1_ne0_dq1", "neg1_ne1_dq0"


class ExportedRun(NamedTuple):
  """A run, as it is before its first update, and the folder of its export."""

  experiment: experiment.Experiment
  folder: pathlib.Path


def export(method, folder, **fields):
  config = synthetic_run.config(method)
  config.update_from_flattened_dict(fields)
  config.query_length, config.record_length = QUERY_LENGTH, RECORD_LENGTH
  config.num_epochs = 0.0
  training_run.train_and_evaluate(config, folder / "run")
  run = experiment.assemble_experiment(config, folder / "run")
  run_export.export_run(run, folder / "exported")
  return ExportedRun(run, folder / "exported")


@pytest.fixture(scope="module")
def ctd(small_world, tmp_path_factory):
  return export("ctd", tmp_path_factory.mktemp("ctd"))


def check_same_rankings(run, monkeypatch):
  workdir = run.experiment.workdir
  retriever = Retriever.load(workdir)
  expected = retriever.search(ASKED, k=len(RECORDS))
  # Neither the workdir nor the data set is needed.
  folder = shutil.move(run.folder, workdir.with_name("elsewhere"))
  with monkeypatch.context() as patch:
    patch.setattr(experiment.load, "build_benchmark", None)
    patch.setattr(experiment, "Checkpoints", None)
    exported = Retriever.load(folder, texts=retriever.texts)
    # Equal to the bit: ids, scores, texts.
    assert exported.search(ASKED, k=len(RECORDS)) == expected
  assert exported.name == retriever.name
  assert exported.score_mode == retriever.score_mode
  # Without texts, the gallery is that of the run.
  found = Retriever.load(folder).search(ASKED, k=5)
  assert found == [hits[:5] for hits in expected]
  shutil.move(folder, run.folder)


def test_an_exported_ctd_ranks_as_the_run_itself(ctd, monkeypatch):
  check_same_rankings(ctd, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
  "method", ["ft", "ctd_posterior", "temps", "time_tokens"]
)
def test_any_exported_run_ranks_as_the_run_itself(
  method, tmp_path, monkeypatch
):
  check_same_rankings(export(method, tmp_path), monkeypatch)


@pytest.mark.slow
def test_a_learned_temperature_and_cut_vectors_are_exported(
  tmp_path, monkeypatch
):
  fields = {"model.learn_temperature": True, "eval.dimension": 5}
  run = export("ctd", tmp_path, **fields)
  check_same_rankings(run, monkeypatch)
  assert "the cut of vectors to 5 dim" in (run.folder / "README.md").read_text()
  ranker = dense.Ranker(run.experiment)
  params = trained_system.restore_system(run.experiment).params
  assert ranker.encode_gallery(params).semantic.shape[1] == 5


def test_an_exported_run_on_a_hub_is_no_mere_encoder(ctd, monkeypatch):
  monkeypatch.setattr(
    folders.huggingface_hub, "snapshot_download", lambda *_, **__: ctd.folder
  )
  hub = Retriever.load("owner/name", texts=RECORDS)
  assert hub.score_mode == "ctd"
  local = Retriever.load(ctd.folder, texts=RECORDS)
  assert hub.search(ASKED, k=5) == local.search(ASKED, k=5)


def test_the_folder_says_how_its_vectors_are_made(ctd):
  run = ctd.experiment
  params = trained_system.restore_system(run).params
  ranker = dense.Ranker(run)
  for side, texts, tokens, length in (
    ("query", ASKED, run.queries["test"], QUERY_LENGTH),
    ("record", RECORDS, run.records, RECORD_LENGTH),
  ):
    encoder = TextEncoder.load(ctd.folder, side=side)
    made = encoder.pooling, encoder.normalize, encoder.max_length
    assert made == ("mean", True, length)
    expected = ranker.encode_texts(params, tokens, side).semantic
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)
  # What the caller names wins.
  other = TextEncoder.load(
    ctd.folder, pooling="cls", normalize=False, max_length=5
  )
  made = other.pooling, other.normalize, other.max_length
  assert made == ("cls", False, 5)
  with pytest.raises(ValueError, match="9 of a query and 10 of a record; give"):
    TextEncoder.load(ctd.folder)
  # Libraries with one length must not cut the longer side.
  declared = json.loads((ctd.folder / "sentence_bert_config.json").read_text())
  assert declared == {"max_seq_length": RECORD_LENGTH}


def run_value(run, mode):
  """Returns the measured value of the run itself."""
  path = run.experiment.workdir / "evaluation" / "results.json"
  rows = results.read_result_rows(path)
  (row,) = results.select_rows(
    rows, system="ctd-synthetic", family="all", metric="mrr@10", mode=mode
  )
  return row.value


def test_the_card_says_what_others_leave_behind_and_what_it_costs(
  ctd, tmp_path
):
  card = (ctd.folder / "README.md").read_text()
  assert "trained on `synthetic/test:1.0.0`" in card
  assert "That is another system" in card
  assert "the calendar context" in card
  assert "the bias of the offset in time" in card
  assert "- query: 9 tokens, no prefix" in card
  assert "- record: 10 tokens, no prefix" in card

  shutil.copytree(ctd.folder, tmp_path / "encoder")
  (tmp_path / "encoder" / run_folder.SYSTEM_FILE).unlink()
  texts = {record.record_id: record.text for record in BENCHMARK.records}
  scores = scoring.evaluate(
    Retriever.load(tmp_path / "encoder", texts=texts), BENCHMARK
  )
  for mode in (OFFICIAL, EVENT_ONLY):
    of_run = run_value(ctd, mode)
    of_vectors = scores.mean("mrr@10", mode=mode)
    assert of_run != pytest.approx(of_vectors, abs=1e-3)
    title = protocol.mode_title(mode)
    block = card.split(f"test; {title};")[1].split("**")[1]
    cells = dict(
      re.findall(
        r"\| ctd-synthetic \| (\w+) .*\| (\S+) \[[^|]*\|$", block, re.M
      )
    )
    assert float(cells["ctd"]) == pytest.approx(of_run, abs=1e-4)
    assert float(cells["semantic"]) == pytest.approx(of_vectors, abs=1e-4)


def test_the_metadata_of_the_card_are_those_that_hubs_read(ctd):
  card = huggingface_hub.ModelCard.load(ctd.folder / "README.md")
  assert card.data.datasets == ["synthetic/test"]
  assert card.data.license == "apache-2.0"  # trained from random values
  assert card.data.base_model is None

  (figure,) = (
    result.metric_value
    for result in card.data.eval_results
    if (result.dataset_split, result.dataset_config) == ("test", OFFICIAL)
    and (result.metric_type, result.metric_config) == ("mrr@10", "ctd")
  )
  assert figure == pytest.approx(run_value(ctd, OFFICIAL), abs=1e-4)


def test_the_card_names_the_base_that_a_folder_was_loaded_from(ctd, tmp_path):
  system = trained_system.restore_system(ctd.experiment)
  path = tmp_path / "local" / "config.json"
  path.parent.mkdir()
  backbone = dataclasses.replace(system.backbone, source=str(path.parent))
  system = dataclasses.replace(system, backbone=backbone)
  for name, base in (("owner/model", "owner/model"), (str(tmp_path), None)):
    path.write_text(json.dumps({"_name_or_path": name}))
    for adapters, relation in ((False, "finetune"), (True, "adapter")):
      card = run_export.make_card(system, [], "exported", adapters)
      assert card.data.base_model == base
      assert card.data.get("base_model_relation") == (
        relation if base else None
      )
      assert f"from `{base or 'local'}`" in str(card)
      assert str(tmp_path) not in str(card)
      assert card.data.license == "other"


def test_a_folder_is_pushed_to_a_hub(ctd, tmp_path, monkeypatch):
  calls = []

  class Hub:
    def create_repo(self, repo_id, **options):
      if "taken" in repo_id:
        raise OSError("403 Forbidden\nmore")
      calls.append(("create_repo", repo_id, options))

    def upload_folder(self, repo_id, folder_path):
      names = {path.name for path in folder_path.iterdir()}
      assert {"README.md", "model.safetensors", "ctd_jax.json"} <= names
      calls.append(("upload_folder", repo_id, folder_path))

  monkeypatch.setattr(run_export.huggingface_hub, "HfApi", Hub)
  monkeypatch.setattr(run_export, "measure_system", lambda *_: [])
  folder = tmp_path / "pushed"
  for name, message in (
    ("taken/name", "--push_to_hub=taken/name: 403 Forbidden$"),
    ("name", "--push_to_hub=name: expected owner/name"),
  ):
    with pytest.raises(ValueError, match=message):
      run_export.export_run(ctd.experiment, folder, hub_name=name)
    assert not folder.exists()
  run_export.export_run(ctd.experiment, folder, hub_name="owner/name")
  assert calls == [
    ("create_repo", "owner/name", {"private": True, "exist_ok": True}),
    ("upload_folder", "owner/name", folder),
  ]


@pytest.mark.slow
def test_of_a_run_that_scores_by_cosine_nothing_is_left(tmp_path):
  card = (export("ft", tmp_path).folder / "README.md").read_text()
  assert "Nothing is left behind" in card
  assert "another system" not in card
  assert card.count("| ft-synthetic | semantic |") == 2  # modes


@pytest.mark.slow
def test_the_card_says_that_others_read_no_dates(tmp_path):
  card = (export("date_prefix", tmp_path).folder / "README.md").read_text()
  assert "- the dates that stand before queries and records" in card


def test_paths_of_this_machine_stay_behind(ctd):
  assert str(ctd.experiment.workdir.parent) not in "".join(
    path.read_text()
    for path in ctd.folder.rglob("*")
    if path.suffix in (".json", ".md")
  )


def test_an_export_has_no_path_of_the_machine_that_wrote_it(ctd, tmp_path):
  system = trained_system.restore_system(ctd.experiment)
  config = system.config.copy_and_resolve_references()
  config.data_dir = "/of_this_machine/data"
  config.input.tokens_dir = "/of_this_machine/tokens"
  config.input.workers = 3
  config.eval.vectors_dir = "/of_this_machine/vectors"
  trained_system.write_system(
    tmp_path, dataclasses.replace(system, config=config)
  )
  path = tmp_path / run_folder.SYSTEM_FILE
  assert "of_this_machine" not in path.read_text()
  assert json.loads(path.read_text())["config"]["input"]["workers"] == 0


def test_a_changed_file_of_an_export_is_named(ctd, tmp_path):
  names = [
    path.relative_to(ctd.folder)
    for path in ctd.folder.rglob("*")
    if path.is_file() and path.suffix != ".md"
  ]
  assert len(names) > 4
  for name in names:
    folder = tmp_path / str(name).replace("/", "_")
    shutil.copytree(ctd.folder, folder)
    content = bytearray((folder / name).read_bytes())
    if name.name == run_folder.SYSTEM_FILE:
      continue
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"{folder / name} ")):
      trained_system.read_system(folder)


def test_an_export_that_does_not_fit_is_named(ctd, tmp_path):
  folder = tmp_path / "exported"
  shutil.copytree(ctd.folder, folder)
  path = folder / run_folder.SYSTEM_FILE
  content = json.loads(path.read_text())
  content["config"]["model"]["use_bias"] = False
  path.write_text(json.dumps(content))
  with pytest.raises(ValueError, match=r"ctd_jax\.safetensors .* offset/"):
    Retriever.load(folder, texts=["x"])
  path.write_text(json.dumps(content | {"format": 9}))
  with pytest.raises(ValueError, match=r"ctd_jax\.json: format 9, expected 1"):
    Retriever.load(folder, texts=["x"])
  path.write_text("{}")
  with pytest.raises(ValueError, match=r"ctd_jax\.json: .*`format`"):
    Retriever.load(folder, texts=["x"])
  path.write_text(json.dumps(content))
  (folder / trained_system.PARAMS_FILE).unlink()
  with pytest.raises(FileNotFoundError, match=r"no ctd_jax\.safetensors in"):
    Retriever.load(folder, texts=["x"])
