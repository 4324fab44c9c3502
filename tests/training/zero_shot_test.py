"""Configs of published encoders as they are: what exactly is encoded."""

import json

import pytest
import tokenizers

from ctd_jax.training import experiment
from ctd_jax_configs import zero_shot
from tests import synthetic
from tests.models import published_folder

BENCHMARK = synthetic.benchmark()
QUERY = BENCHMARK.queries["test"][0].text
RECORD = BENCHMARK.records[0].text
TEXTS = [
  text.text
  for texts in (BENCHMARK.records, *BENCHMARK.queries.values())
  for text in texts
]
TIME_AWARE = (
  "Instruct: Given a time-aware historical query about the Chunqiu corpus, "
  "retrieve relevant passages from the corpus.\nQuery: "
)
CLASSICAL = (
  "Instruct: Given a classical Chinese query about the Spring and Autumn "
  "Annals, retrieve relevant passages that describe the corresponding "
  "historical events.\nQuery:"
)
# Architecture of the weights, and what stands before a query and a record.
EXPECTED = {
  "me5_large": ("xlm-roberta", "query: ", "passage: "),
  "me5_large_instruct": ("xlm-roberta", TIME_AWARE, ""),
  "gte_large_zh": ("bert", "", ""),
  "bge_large_zh": ("bert", "为这个句子生成表示以用于检索相关文章：", ""),
  "bge_m3": ("xlm-roberta", "", ""),
  "gte_qwen2_1_5b": ("qwen2", TIME_AWARE, ""),
  "e5_mistral_7b": ("mistral", CLASSICAL + " ", ""),
  "qwen3_embedding_0_6b": ("qwen3", CLASSICAL, ""),
  "qwen3_embedding_4b": ("qwen3", CLASSICAL, ""),
}


def test_every_row_of_the_table_is_here():
  assert EXPECTED.keys() == zero_shot.ENCODERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_encoded_is_prefix_and_text(name, tmp_path, monkeypatch):
  monkeypatch.setattr(experiment.load, "build_benchmark", lambda *_: BENCHMARK)
  kind, before_query, before_record = EXPECTED[name]
  folder = published_folder.write(
    tmp_path / "published",
    [*TEXTS, before_query, before_record],
    kind,
  )
  config = zero_shot.get_config(name)
  assert (config.query_length, config.record_length) == (128, 256)
  config.model.encoder.source = str(folder)
  config.query_length = 512  # here a character is a token
  run = experiment.assemble_experiment(config, tmp_path / "run")
  run.checkpoints.close()
  assert run.total_steps == 0
  assert json.loads((folder / "config.json").read_text())["model_type"] == kind

  def written(tokens):
    row = tokens.ids[0][tokens.mask[0] > 0]
    return [vocabulary.id_to_token(index) for index in row]

  vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  front, end = ["<s>"], "</s>"
  if kind in published_folder.DECODERS:
    front, end = [], config.model.encoder.end_token
    assert config.model.pooling == "last"
  query, record = before_query + QUERY, before_record + RECORD
  assert written(run.queries["test"]) == [*front, *query, end]
  assert written(run.records) == [*front, *record, end]


def test_an_unknown_encoder_is_named():
  with pytest.raises(ValueError, match="unknown encoder 'sentence_t5' after"):
    zero_shot.get_config("sentence_t5")
