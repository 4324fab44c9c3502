"""Vectors of an index: made, kept, asked, refused and taken out."""

import contextlib
import shutil

import numpy as np
import pytest

from ctd_jax.experiments import training_run
from ctd_jax.index import (
  answers,
  database,
  encoders,
  index_check,
  manifest,
  ranking,
  redating,
)
from ctd_jax.index import vectors as vectors_lib
from ctd_jax.index.asking import Index
from ctd_jax.index.vectors import NearRecords
from ctd_jax.models.dual_encoder import CTDConfig
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.encoders.layers import LoraConfig
from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.retrieval import run_export
from ctd_jax.training import experiment
from tests.index import corpora
from tests.index.corpora import build_index
from tests.models import published_folder
from tests.training import synthetic_run

RECORDS = corpora.list_dated_records(30)
TEXTS = [record["text"] for record in RECORDS]
MORE = [
  {"text": f"{name}奔楚，自南門出。", "start": f"2-1-{number}"}
  for number, name in enumerate(("公子荊", "華元", "高厚"), start=1)
]


def write_encoder(folder, seed_texts=TEXTS, pooling="mean"):
  """Writes a tiny published encoder that says how its vectors are made."""
  texts = [*seed_texts, *(record["text"] for record in MORE)]
  published_folder.write(folder, texts)
  settings = VectorSettings(
    pooling, True, SideSettings("來", 12), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder, settings, 16)
  return folder


@pytest.fixture(name="encoder", scope="module")
def fixture_encoder(tmp_path_factory):
  return write_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(name="sources", scope="module")
def fixture_sources(tmp_path_factory):
  folder = tmp_path_factory.mktemp("beir")
  corpora.write_beir(folder / "annals", RECORDS)
  corpora.write_beir(folder / "more", MORE)
  return folder


@pytest.fixture(name="dense_index", scope="module")
def fixture_dense_index(sources, encoder, tmp_path_factory):
  folder = tmp_path_factory.mktemp("index") / "dense.index"
  build_index(folder, sources / "annals", encoder=str(encoder))
  return folder


@pytest.fixture(name="copy")
def fixture_copy(dense_index, tmp_path):
  return shutil.copytree(dense_index, tmp_path / "copy.index")


def count_encoded(monkeypatch):
  """Returns a list to which the texts are added that are encoded from now."""
  encoded = []
  write_part = vectors_lib.write_part

  def write(part, encode):
    encoded.extend(part.texts)
    write_part(part, encode)

  monkeypatch.setattr(vectors_lib, "write_part", write)
  return encoded


def join_notes(answer):
  return " ".join(map(str, answer.notes))


def test_every_record_has_a_vector_of_the_encoder(dense_index, encoder):
  entry = manifest.read_manifest(dense_index).dense
  assert (entry.kind, entry.path) == (encoders.PUBLISHED, str(encoder))
  assert index_check.check_index(dense_index) == []
  summary = index_check.format_summary(dense_index)
  assert "30 of 16 dimensions, by tiny" in summary
  index = Index.open(dense_index)
  (work,) = index.works
  vectors = np.concatenate([*index.dense.vectors_of(work).parts])
  expected = encoders.open_encoder(encoder).encode_records(TEXTS)
  np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_words_are_ranked_by_their_vectors_too(dense_index):
  index = Index.open(dense_index, dense_weight=1.0)
  text = TEXTS[7].rstrip("。")
  answer = index.ask(text, k=30, intent="words", near=True)
  near = index.dense.find_near(" ".join(answer.understood.words), index.works)
  (work,) = index.works
  cosines = near.cosines[work.work_id]
  order = np.argsort(-cosines, kind="stable")
  above = int((cosines > near.lowest).sum())
  rows = [record.row for record in answer.results]
  assert rows[:above] == (order[:above] + 1).tolist()
  parts = [record.score_parts for record in answer.results]
  assert (parts[0]["dense"], parts[-1]["dense"]) == (1.0, 0.0)
  expected = cosines.mean(), cosines.max()
  assert (near.lowest, near.highest) == pytest.approx(expected)
  assert parts[0]["cosine"] == pytest.approx(float(cosines.max()))
  assert answer.versions.encoder == encoders.describe_encoder(index.dense.entry)
  lines = answers.format_answer(answer, why=True)
  assert "words 1.00, dense 1.00, cosine" in " ".join(lines.split())
  # The record that holds the words is the first with either weight.
  by_words = Index.open(dense_index, encoder="none").ask(text, intent="words")
  assert by_words.results[0].text == TEXTS[7]
  both = Index.open(dense_index, dense_weight=0.2).ask(text, intent="words")
  first = both.results[0]
  assert first.text == TEXTS[7]
  expected = 0.8 * first.score_parts["words"] + 0.2 * first.score_parts["dense"]
  assert first.score == pytest.approx(expected)


def test_what_no_record_prints_is_found_and_said(dense_index):
  answer = Index.open(dense_index).ask("楚丘", k=2, intent="words")
  assert len(answer.results) == 2
  notes = join_notes(answer)
  assert "none of these contains 楚丘" in notes
  assert "close to it in meaning" in notes
  alone = Index.open(dense_index, encoder="none").ask("楚丘", intent="words")
  assert alone.is_empty
  assert "the vectors of tiny were not used" in join_notes(alone)
  assert alone.versions.encoder is None


def test_vectors_are_compared_within_a_time(dense_index):
  index = Index.open(dense_index, dense_weight=0.5)
  in_year = index.ask("魯隱公二年", k=30)
  answer = index.ask("魯隱公二年楚丘", k=30)
  rows = [{record.row for record in it.results} for it in (answer, in_year)]
  assert rows[0] == rows[1]
  person = corpora.name_person(1, 3)
  notes = join_notes(index.ask("魯隱公二年" + person, k=30))
  assert "records from other times contain" in notes
  assert "none of these contains" in notes
  alone = index.ask(person, k=9, intent="words")
  mixed = index.ask(person, k=9, intent="words", near=True)
  assert len(mixed.results) > len(alone.results) == alone.counts["exact"]
  first = answer.results[0]
  assert first.score == pytest.approx(
    ranking.WORD_WEIGHT * 0.5 * first.score_parts["dense"]
    + first.score_parts["kind"]
    + first.score_parts["time"],
    abs=1e-3,
  )


def test_time_alone_opens_no_encoder(dense_index, monkeypatch):
  monkeypatch.setattr(encoders, "open_encoder", None)
  index = Index.open(dense_index)
  assert index.ask("魯隱公元年五月").results
  with pytest.raises(TypeError):
    index.ask("來聘", intent="words")


def test_an_added_work_is_encoded_by_itself(copy, sources, monkeypatch):
  encoded = count_encoded(monkeypatch)
  build_index(copy, sources / "more")
  assert encoded == [record["text"] for record in MORE]
  assert manifest.read_manifest(copy).dense.vectors == 33
  assert index_check.check_index(copy) == []
  index = Index.open(copy, dense_weight=1.0)
  assert index.ask("公子荊奔楚", k=1, intent="words").results
  build_index(copy, sources / "more")
  assert len(encoded) == len(MORE)


def test_a_corrected_work_keeps_its_vectors(copy, monkeypatch):
  work = Index.open(copy).works[0].name
  corpora.correct(copy, work, "r3", "魯隱公元年九月")
  monkeypatch.setattr(encoders, "open_encoder", None)  # nothing is encoded
  assert redating.redate_index(copy).build.added == (work,)
  assert manifest.read_manifest(copy).dense.vectors == 30
  assert index_check.check_index(copy) == []


@pytest.mark.slow
def test_encoding_that_is_broken_off_goes_on(
  copy, sources, encoder, tmp_path, monkeypatch
):
  monkeypatch.setattr(vectors_lib, "PART_SIZE", 8)
  other = write_encoder(tmp_path / "other", [*TEXTS, "某"])
  write_part = vectors_lib.write_part
  parts = []

  def write_two_parts(part, encode):
    parts.append(part)
    if len(parts) == 3:
      raise KeyboardInterrupt
    write_part(part, encode)

  before = manifest.read_manifest(copy)
  with monkeypatch.context() as patch:
    patch.setattr(vectors_lib, "write_part", write_two_parts)
    with pytest.raises(KeyboardInterrupt):
      build_index(copy, encoder=str(other))
  assert manifest.read_manifest(copy) == before
  encoded = count_encoded(monkeypatch)
  # A part that was damaged since then is made again.
  path = parts[0].path
  content = path.read_bytes()
  path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
  build_index(copy, encoder=str(other))
  assert encoded == TEXTS[:8] + TEXTS[16:]
  entry = manifest.read_manifest(copy).dense
  assert (entry.name, entry.vectors) == ("other", 30)
  assert len(list((copy / vectors_lib.VECTORS_FOLDER).iterdir())) == 1
  assert index_check.check_index(copy) == []


@pytest.mark.parametrize("changes_encoder", [False, True])
def test_a_build_that_is_broken_off_at_its_end_answers(
  copy, sources, tmp_path, monkeypatch, changes_encoder
):
  options = {}
  if changes_encoder:
    options["encoder"] = str(write_encoder(tmp_path / "other", [*TEXTS, "某"]))
  with monkeypatch.context() as patch:
    patch.setattr(manifest, "write_manifest", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      build_index(copy, sources / "more", **options)
  index = Index.open(copy)
  assert index.ask("公子荊", k=1, intent="words").results[0].row == 31
  assert index.ask("楚丘", k=40, intent="words").results
  build_index(copy, sources / "more", **options)
  assert manifest.read_manifest(copy).dense.vectors == 33
  assert index_check.check_index(copy) == []


def test_another_encoder_is_refused(dense_index, tmp_path):
  other = write_encoder(tmp_path / "other", [*TEXTS, "某"])
  index = Index.open(dense_index, encoder=other)
  assert index.ask("魯隱公元年五月").results
  with pytest.raises(ValueError, match=r"other .* were made with tiny"):
    index.ask("來聘", intent="words")


def test_an_encoder_that_was_moved_is_named(copy, encoder, sources, tmp_path):
  entry = manifest.read_manifest(copy)
  path = copy / manifest.MANIFEST_FILE
  text = path.read_text(encoding="utf-8")
  text = text.replace(entry.dense.path, str(tmp_path / "gone"))
  path.write_text(text)
  with contextlib.closing(database.open_database(copy, False)) as connection:
    database.set_property(connection, "manifest", text)
  with pytest.raises(FileNotFoundError, match=r"gone: missing.*--encoder="):
    Index.open(copy).ask("來聘", intent="words")
  with pytest.raises(FileNotFoundError, match=r"gone: missing.*--encoder="):
    build_index(copy, sources / "more")
  moved = shutil.copytree(encoder, tmp_path / "moved")
  assert Index.open(copy, encoder=moved).ask("來聘", intent="words").results
  build_index(copy, encoder=str(moved))
  assert manifest.read_manifest(copy).dense.path == str(moved)
  assert Index.open(copy).ask("來聘", intent="words").results


def test_vectors_are_taken_out(copy):
  build_index(copy, encoder="none", use_passages=True)
  assert manifest.read_manifest(copy).dense is None
  # No work came or went: what dates passages stays what it is.
  assert manifest.read_manifest(copy).passages is None
  assert not list((copy / vectors_lib.VECTORS_FOLDER).iterdir())
  index = Index.open(copy)
  assert index.dense is None
  answer = index.ask("來聘", intent="words")
  assert not answer.notes
  assert set(answer.results[0].score_parts) == {"kind", "words"}


def test_damaged_vectors_are_named(copy):
  (path,) = (copy / vectors_lib.VECTORS_FOLDER).rglob("*.npy")
  vectors = np.load(path)
  content = path.read_bytes()
  np.save(path, vectors * 2)
  problems = " ".join(map(str, index_check.check_index(copy)))
  assert path.name in problems
  assert "length is not 1" in problems
  path.write_bytes(content[:-1])
  with pytest.raises(ValueError, match=rf"{path.name}: damaged"):
    Index.open(copy)
  path.unlink()
  assert any("missing" in problem for problem in index_check.check_index(copy))


def test_errors_say_what_would_be_right(copy, encoder, index_folder, tmp_path):
  with pytest.raises(ValueError, match="has no vectors; python -m ctd_jax.ind"):
    Index.open(index_folder, encoder=encoder)
  Index.open(index_folder, encoder="none")
  with pytest.raises(FileNotFoundError, match=r"--encoder=.*/nothing: no such"):
    Index.open(copy, encoder=tmp_path / "nothing")
  with pytest.raises(FileNotFoundError, match=r"--encoder=.*/nothing: no such"):
    build_index(copy, encoder=str(tmp_path / "nothing"))
  with pytest.raises(ValueError, match="dense_weight=2.0: expected 0 to 1"):
    Index.open(copy, dense_weight=2.0)
  with pytest.raises(ValueError, match="there are no vectors to weigh"):
    Index.open(copy, encoder="none", dense_weight=0.5)
  silent = shutil.copytree(encoder, tmp_path / "silent")
  (silent / vector_settings.MODULES_FILE).unlink()
  with pytest.raises(ValueError, match=r"silent: does not say .*modules\.json"):
    build_index(copy, encoder=str(silent))
  with pytest.raises(FileNotFoundError, match="no encoder there; expected the"):
    build_index(copy, encoder=str(tmp_path))


def test_weights_of_words_and_vectors_are_shares(dense_index):
  index = Index.open(dense_index)
  (work,) = index.works
  cosines = np.linspace(0, 1, work.num_records, dtype=np.float32)
  near = NearRecords(frozenset({29, 30}), {work.work_id: cosines}, 0.5, 1.0)
  posteriors = [index.posteriors_of(work)]

  def rank(weight):
    ranked = (
      ranking.rank_by_words(
        posteriors, {3: 0.7}, near=near, dense_weight=weight
      )
      .best(5)
      .records()
    )
    return [(item.row, round(item.score, 3)) for item in ranked]

  assert rank(0.0)[0] == (3, 0.7)
  assert rank(0.5)[0] == (30, 0.5)
  assert rank(0.2) == [(3, 0.56), (30, 0.2), (29, 0.186)]


@pytest.mark.parametrize("module", [BertConfig, DecoderConfig])
def test_the_hash_of_a_run_has_no_field_that_changes_no_vector(module):
  def describe(use_gaussian, **fields):
    return encoders._describe_config(
      CTDConfig(
        module(vocab_size=7, **fields),
        class_counts=(1, 2, 3),
        reign_starts=(0,),
        month_classes=((0, 0, 0),),
        use_gaussian=use_gaussian,
      )
    )

  plain = describe(False)
  # Those of an index that was made before there were others.
  assert plain.keys() == {
    *("encoder", "class_counts", "reign_starts", "month_classes", "pooling"),
    *("use_context", "use_bias", "codebook", "offset_features", "scalar_axis"),
    *("context_dim", "bias_dim", "gate_init", "bias_scale_init"),
    *("use_posterior", "posterior_dim", "mass_weight_init", "temperature"),
  }
  assert not {"attention", "lora"} & plain["encoder"].keys()
  assert describe(False, attention="plain") == plain
  assert describe(True)["gaussian_dim"] == 8
  adapted = describe(False, lora=LoraConfig(rank=2, alpha=4.0))
  assert adapted["encoder"]["lora"]["rank"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compile", "small_world")
def test_a_run_is_the_same_in_its_workdir_and_exported(
  copy, trained_config, trained_run, tmp_path, monkeypatch
):
  run = experiment.assemble_experiment(trained_config, trained_run)
  run_export.export_run(run, tmp_path / "exported")
  build_index(copy, encoder=str(trained_run))
  entry = manifest.read_manifest(copy).dense
  assert (entry.kind, entry.name) == (encoders.RUN, trained_config.name)
  index = Index.open(copy, encoder=tmp_path / "exported")
  assert index.ask("來聘", intent="words").versions.encoder
  encoded = count_encoded(monkeypatch)
  build_index(copy, encoder=str(tmp_path / "exported"))
  assert not encoded
  assert manifest.read_manifest(copy).dense.sha256 == entry.sha256


@pytest.mark.slow
@pytest.mark.usefixtures("small_world")
def test_a_run_that_reads_time_keys_makes_no_vectors(tmp_path):
  config = synthetic_run.config("date_prefix")
  config.dates.records = "key"
  config.num_epochs = 0.0
  training_run.train_and_evaluate(config, tmp_path)
  with pytest.raises(ValueError, match="the time keys of records .track T1"):
    encoders.open_encoder(tmp_path)
