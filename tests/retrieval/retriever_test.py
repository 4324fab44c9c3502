"""Retriever: of a run as its run files say, of an encoder by its cosine."""

import shutil

import numpy as np
import pytest

from ctd_jax import Retriever
from ctd_jax.benchmark import runs
from ctd_jax.evaluation import scoring
from ctd_jax.experiments import training_run
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval import run_export
from ctd_jax.training import experiment, run_folder
from tests import synthetic
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")
BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]
ASKED = [query.text for query in QUERIES]


@pytest.fixture(scope="module")
def retriever(small_world, trained_run):
  return Retriever.load(trained_run)


@pytest.fixture(scope="module")
def encoder_folder(small_world, trained_config, trained_run, tmp_path_factory):
  """The encoder of the run alone, as other libraries have it."""
  folder = tmp_path_factory.mktemp("exported") / "encoder"
  run = experiment.assemble_experiment(trained_config, trained_run)
  run_export.export_run(run, folder)
  (folder / run_folder.SYSTEM_FILE).unlink()
  return folder


@pytest.mark.slow
def test_a_run_searches_as_its_run_files_say(retriever, trained_run):
  run = runs.read_run(
    trained_run / "evaluation" / f"run.{retriever.name}.test.neg1_ne1.trec"
  )
  assert (retriever.track, retriever.score_mode) == (run.track, run.score_mode)
  texts = {record.record_id: record.text for record in BENCHMARK.records}
  assert retriever.texts == texts
  for query, hits in zip(QUERIES, retriever.search(ASKED, k=7), strict=True):
    assert [(hit.record_id, hit.score, hit.text) for hit in hits] == [
      (name, pytest.approx(score, rel=1e-5), texts[name])
      for name, score in run.rankings[query.query_id][:7]
    ]


@pytest.mark.slow
def test_it_is_evaluated_like_any_system(retriever, trained_run):
  ours = scoring.evaluate(retriever, BENCHMARK)
  files = scoring.evaluate(trained_run / "evaluation", BENCHMARK)
  assert ours.system == retriever.name
  assert ours.mean("mrr@10") == pytest.approx(files.mean("mrr@10"))


@pytest.mark.slow
def test_a_gallery_of_texts_that_are_no_data_set(retriever, trained_run):
  texts = {"x": BENCHMARK.records[0].text, "y": BENCHMARK.records[5].text}
  own = Retriever.load(trained_run, texts=texts)
  (hits,) = own.search(ASKED[:1], k=9)
  assert {hit.record_id for hit in hits} == {"x", "y"}
  # A pair has the score that it has in any gallery.
  (everything,) = retriever.search(ASKED[:1], k=len(BENCHMARK.records))
  scores = {hit.text: hit.score for hit in everything}
  for hit in hits:
    assert hit.score == pytest.approx(scores[hit.text], rel=1e-5)
  numbered = Retriever.load(trained_run, texts=list(texts.values()))
  assert {h.record_id for h in numbered.search(ASKED[:1])[0]} == {"0", "1"}


@pytest.mark.slow
def test_an_encoder_ranks_by_the_cosine(encoder_folder, retriever):
  encoder = Retriever.load(encoder_folder, texts=retriever.texts)
  assert encoder.score_mode == "semantic"
  vectors = TextEncoder.load(encoder_folder)
  cosines = (
    vectors.encode(ASKED) @ vectors.encode(list(retriever.texts.values())).T
  )
  for hits, line in zip(encoder.search(ASKED, k=5), cosines, strict=True):
    np.testing.assert_allclose(
      [hit.score for hit in hits], np.sort(line)[:-6:-1], rtol=1e-5
    )
  # The run was trained with the cosine, so it ranks alike.
  ours, theirs = encoder.search(ASKED, k=1), retriever.search(ASKED, k=1)
  assert [h[0].record_id for h in ours] == [h[0].record_id for h in theirs]


@pytest.mark.slow
def test_a_config_is_a_model_before_training():
  config = synthetic_run.config("posterior")
  retriever = Retriever.load(config)
  assert retriever.score_mode == "posterior"
  (hits,) = retriever.search(ASKED[:1], k=3)
  assert len(hits) == 3
  assert hits == retriever.search(ASKED[:1], k=3)[0]


@pytest.mark.slow
def test_keys_of_records_are_those_of_a_data_set(tmp_path):
  config = synthetic_run.config("date_prefix")
  config.dates.records = "key"
  config.num_epochs = 0.0
  training_run.train_and_evaluate(config, tmp_path / "run")
  retriever = Retriever.load(tmp_path / "run")
  assert retriever.track == "T1"
  (hits,) = retriever.search(ASKED[:1], k=3)
  run = experiment.assemble_experiment(config, tmp_path / "run")
  run_export.export_run(run, tmp_path / "exported")
  run.checkpoints.close()
  assert Retriever.load(tmp_path / "exported").search(ASKED[:1], k=3) == [hits]
  for folder in ("run", "exported"):
    with pytest.raises(ValueError, match="texts alone have none; give a data"):
      Retriever.load(tmp_path / folder, texts=["齊人來盟"])


@pytest.mark.slow
def test_an_encoder_whose_folder_says_nothing_is_told(encoder_folder, tmp_path):
  texts = [record.text for record in BENCHMARK.records]
  expected = Retriever.load(encoder_folder, texts=texts).search(ASKED, k=3)
  folder = tmp_path / "silent"
  shutil.copytree(encoder_folder, folder)
  (folder / "modules.json").unlink()
  with pytest.raises(ValueError, match="does not say .*; give pooling=$"):
    Retriever.load(folder, texts=texts)
  told = Retriever.load(folder, texts=texts, pooling="mean")
  assert told.search(ASKED, k=3) == expected


def test_what_cannot_be_searched_is_named(
  encoder_folder, retriever, trained_run, tmp_path
):
  with pytest.raises(ValueError, match="an encoder has no gallery of its own"):
    Retriever.load(encoder_folder)
  with pytest.raises(FileNotFoundError, match="nothing"):
    Retriever.load(tmp_path / "nothing", texts=["x"])
  with pytest.raises(FileNotFoundError, match="nothing: no such folder"):
    Retriever.load(tmp_path / "nothing")
  with pytest.raises(ValueError, match="pooling='cls', but a run has its own"):
    Retriever.load(trained_run, pooling="cls")
  with pytest.raises(ValueError, match="k must be at least 1, got 0"):
    retriever.search(ASKED, k=0)
  assert retriever.search([]) == []
  for queries, message in (
    (["夏五月", None], r"queries\[1\] must be a string; got NoneType"),
    (3, "queries must be strings; got int"),
  ):
    with pytest.raises(TypeError, match=message):
      retriever.search(queries)
  for texts, error, message in (
    ([], ValueError, "texts has no text"),
    ({"a": 1.5}, TypeError, r"texts\[0\] must be a string; got float"),
  ):
    with pytest.raises(error, match=message):
      Retriever.load(trained_run, texts=texts)


def test_texts_come_in_any_form(retriever):
  expected = retriever.search([ASKED[0]])
  assert retriever.search(ASKED[0]) == expected
  assert retriever.search(np.array(ASKED[:1])) == expected
  assert (
    retriever.search((each for each in ASKED[:1]), np.int64(10)) == expected
  )
