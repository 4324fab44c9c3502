"""Stretches and blocks change no result; samples are bounded, by text alone."""

import dataclasses
import functools

import numpy as np
import pytest
import scipy.sparse

from ctd_jax.dating import (
  corpus,
  expert_panel,
  posterior,
  query_posterior,
  regression,
)
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.experts import base, pairs, parallels, wording, words
from ctd_jax.systems import dated_gallery
from tests import synthetic
from tests.benchmarks import dating_scale

TEXTS = [
  f"{state}人伐{other}于{place}，盟於榆{place}在甲{year}年{state}侯會{other}"
  for state in "齊宋衛陳"
  for other in "鄭蔡曹許"
  for place, year in zip("丘泉門", "一二三", strict=True)
]


def read():
  return corpus.read_corpus(TEXTS, synthetic.TIMELINE)


def rare():
  """An overlap with many equal entries."""
  dense = np.random.default_rng(0).integers(0, 4, (9, 60)).astype(np.float32)
  return dense, scipy.sparse.csr_array(dense)


# --- strings ---------------------------------------------------------------


def test_strings_of_stretches_are_those_of_the_whole(monkeypatch):
  texts = ["", *TEXTS, ""]
  strings, matrix = wording.count_ngrams(texts, (1, 2, 3), 2)
  monkeypatch.setattr(wording, "_CHARS_PER_BLOCK", 30)
  monkeypatch.setattr(wording, "_STRINGS_PER_STRETCH", 3)
  parted, other = wording.count_ngrams(texts, (1, 2, 3), 2)
  np.testing.assert_array_equal(parted.hashes, strings.hashes)
  np.testing.assert_array_equal(parted.lengths, strings.lengths)
  np.testing.assert_array_equal(parted.text_counts, strings.text_counts)
  np.testing.assert_array_equal(other.toarray(), matrix.toarray())
  assert strings.encode([]).shape == (0, len(strings))
  assert len(wording.collect_ngrams([], (1, 2))) == 0


@pytest.mark.parametrize("most", [1, 3, 20, 80])
def test_best_entries_equal_a_full_sort(most):
  dense, sparse = rare()
  rows, columns, values = wording.select_top_entries(sparse, most)
  np.testing.assert_array_equal(dense[rows, columns], values)
  for row, line in enumerate(dense):
    kept = [
      column
      for column, value in enumerate(line)
      if value > 0
      and (line > value).sum() < most
      and (line >= value).sum() <= 2 * most
    ]
    assert sorted(columns[rows == row].tolist()) == kept


def test_entries_are_read_where_none_is_stored():
  dense, sparse = rare()
  rows, columns = np.divmod(np.arange(dense.size), dense.shape[1])
  np.testing.assert_array_equal(
    wording.lookup_entries(sparse, rows, columns), dense.ravel()
  )


# --- pairs -----------------------------------------------------------------


def pairs_of(seen):
  rows = np.arange(len(seen))
  index = wording.build_string_index(seen.bodies)
  found = pairs.read_citations(seen.axis, dict(enumerate(seen.plain_texts)))
  return (
    pairs.make_parallel_pairs(seen, rows, index, rows, list(seen.bodies)),
    pairs.make_citation_pairs(seen, rows, index, found),
  )


def test_pairs_of_stretches_are_those_of_the_whole(monkeypatch):
  seen = read()
  whole = pairs_of(seen)
  monkeypatch.setattr(wording, "_TEXTS_PER_BLOCK", 5)
  monkeypatch.setattr(pairs, "_BLOCK", 7)
  stretches = functools.partialmethod(
    wording.EventStringIndex.iter_blocks, max_matches=40
  )
  monkeypatch.setattr(wording.EventStringIndex, "iter_blocks", stretches)
  for one, other in zip(whole, pairs_of(seen), strict=True):
    assert len(one.features) > 100
    for field in dataclasses.fields(one):
      values = getattr(one, field.name), getattr(other, field.name)
      if field.name == "features":
        np.testing.assert_allclose(*values, rtol=1e-6)
      elif field.name != "citations":
        np.testing.assert_array_equal(*values)


def test_a_stretch_holds_texts_of_bounded_matches():
  seen = read()
  index = wording.build_string_index(seen.bodies)
  parts = list(
    index.iter_blocks(
      len(seen), lambda block: index.encode(seen.bodies[block]), max_matches=300
    )
  )
  ends = [(part.start, part.stop) for part, _ in parts]
  assert len(ends) > 3
  assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
  assert ends[-1][1] == len(seen)
  matches = [(held @ index.strings.text_counts).sum() for _, (held,) in parts]
  assert max(matches) < 300 + index.event_strings.sum()


def test_strings_outside_a_span_are_those_of_a_text_broken_there():
  index = wording.build_string_index(TEXTS)
  rng = np.random.default_rng(0)
  texts = [text + other for text in TEXTS[:9] for other in TEXTS[9:12]]
  spans = [
    tuple(sorted(rng.integers(0, len(text) + 1, 2).tolist())) for text in texts
  ]
  broken = [
    f"{text[:start]}\n{text[end:]}"
    for text, (start, end) in zip(texts, spans, strict=True)
  ]
  expected = index.encode(broken)
  matrix = index.encode_without_spans(texts, spans)
  assert expected.nnz < index.encode(texts).nnz
  np.testing.assert_array_equal(matrix.toarray(), expected.toarray())
  assert index.encode_without_spans([], []).shape == (0, len(index.idf))


def test_a_comment_of_many_citations_is_read_as_often_as_one_of_few(
  monkeypatch,
):
  seen, num_read = read(), []
  rows = np.arange(len(seen))
  index = wording.build_string_index(seen.bodies)
  find_occurrences = wording._find_occurrences

  def count_characters(texts, lengths):
    num_read.append(sum(map(len, texts)))
    return find_occurrences(texts, lengths)

  monkeypatch.setattr(wording, "_find_occurrences", count_characters)
  read_per_character = []
  for num_citations in (4, 64):
    comment = "".join(
      f"甲公二年{TEXTS[place % len(TEXTS)]}" for place in range(num_citations)
    )
    citations = pairs.read_citations(seen.axis, {0: comment})
    assert len(citations) >= num_citations
    num_read.clear()
    pairs.make_citation_pairs(seen, rows, index, citations)
    read_per_character.append(sum(num_read) / len(comment))
  assert read_per_character[1] < 1.2 * read_per_character[0]


def test_chances_of_blocks_are_those_of_the_whole(monkeypatch):
  rng = np.random.default_rng(0)
  values = rng.normal(size=(50, 3))
  classes = (values[:, 0] > 0).astype(int)
  model = regression.BinnedSoftmax.fit(values, classes, 2)
  whole = model.predict_probability(values)
  monkeypatch.setattr(regression, "_BLOCK", 8)
  blocks = model.predict_probability(values)
  np.testing.assert_allclose(blocks, whole, atol=1e-6)


def test_thinned_classes_keep_their_shares():
  rng = np.random.default_rng(0)
  keys = rng.integers(0, 2**32, 6000, dtype=np.uint32)
  plain = np.arange(6000) < 4000
  kept, weights = regression.subsample_examples(
    plain, keys, 400, max_others=200
  )
  assert 300 < plain[kept].sum() < 500
  assert 150 < (~plain[kept]).sum() < 250
  values = rng.normal(size=(6000, 1))
  model = regression.BinnedSoftmax.fit(
    values[kept], plain[kept].astype(int), 2, weights
  )
  share = model.predict_probability(values)[:, 1].mean()
  assert share == pytest.approx(2 / 3, abs=0.05)


# --- samples ---------------------------------------------------------------


def test_a_sample_is_bounded_and_of_the_same_texts_in_any_order():
  seen = read()
  assert len(seen.sample_rows(len(seen))) == len(seen)
  chosen = seen.sample_rows(12)
  assert 0 < len(chosen) < 30
  order = np.random.default_rng(1).permutation(len(seen))
  moved = corpus.read_corpus([TEXTS[row] for row in order], synthetic.TIMELINE)
  assert {moved.texts[row] for row in moved.sample_rows(12)} == {
    seen.texts[row] for row in chosen
  }


@pytest.mark.parametrize("punctuation", [True, False])
def test_style_of_records_outside_the_sample(monkeypatch, punctuation):
  texts = [text.replace("於", "，") for text in TEXTS]
  texts += [f"{text[:5]}者何言其君也" for text in TEXTS]
  answers = np.repeat([1, 0], len(TEXTS))
  answers[::7] = UNKNOWN
  seen = corpus.read_corpus(texts, synthetic.TIMELINE)
  labels = Labels(np.full(len(texts), UNKNOWN), answers)
  monkeypatch.setattr(base, "_MAX_STYLE_RECORDS", 48)
  monkeypatch.setattr(base, "_STYLE_BLOCK", 9)
  assert len(seen.sample_rows(48)) < 0.7 * len(texts)
  log_p = base.predict_event_log_p(seen, labels, punctuation)
  assert np.array_equal(log_p > np.log(0.5), np.arange(len(texts)) < len(TEXTS))


def test_words_of_records_outside_the_sample():
  texts = [
    f"{name}盟于{place}" for name in "衍煦" for place in "甲乙丙丁戊"
  ] * 9
  months = np.array([0 if "衍" in text else 40 for text in texts])
  strings, matrix = wording.count_ngrams(texts[:40], (1, 2))
  year_vocabulary = wording.YearVocabulary(
    texts, strings, (np.arange(len(strings)),), np.arange(40), matrix
  )
  labels = Labels(np.where(np.arange(90) < 60, months, UNKNOWN), months * 0 + 1)
  rows = np.arange(60, 90)

  def score(labels):
    counts = year_vocabulary.count_by_year(
      corpus.MonthAxis.from_timeline(synthetic.TIMELINE),
      labels,
      np.ones(90, bool),
    )
    fitted = words.FittedWords(
      vocabulary=year_vocabulary, counts=counts, weights=np.ones(3)
    )
    return fitted.year_scores(rows)

  scores = score(labels)
  assert np.array_equal(scores.argmax(axis=1) >= 2, months[rows] > 0)
  # Known records outside the sample teach nothing.
  fewer = labels.hide_records(np.arange(90) >= 40)
  np.testing.assert_array_equal(score(fewer), scores)


# --- the whole -------------------------------------------------------------


@pytest.fixture(scope="module")
def dated():
  benchmark = dating_scale.repeated(synthetic.benchmark(), 12)
  return dated_gallery.read_dated_gallery(
    benchmark, model=DatingModel.without(["neural"])
  )


def test_copies_differ_and_the_first_is_the_original(dated):
  original = synthetic.benchmark().records
  records = dated.benchmark.records
  assert records[: len(original)] == original
  assert len({record.record_id for record in records}) == 12 * len(original)
  for record, first in zip(records, original * 12, strict=True):
    assert (record.key, record.kind) == (first.key, first.kind)
    assert len(record.text) == len(first.text)
    changed = sum(a != b for a, b in zip(record.text, first.text, strict=True))
    assert changed <= 1 + len(first.text) // 40
    assert changed == 0 or record.kind != "no_event"


@pytest.mark.slow
def test_posterior_of_small_blocks_is_that_of_large_ones(dated, monkeypatch):
  rows = np.arange(len(dated.benchmark.records))
  whole = dated.date("fitted").posterior.log_p(rows)
  monkeypatch.setattr(expert_panel, "BLOCK", 3)
  monkeypatch.setattr(words, "_BLOCK", 50)
  monkeypatch.setattr(parallels, "_LINKS_PER_BLOCK", 5)
  monkeypatch.setattr(parallels, "_BLOCK", 11)
  blocks = dated.date("fitted").posterior.log_p(rows)
  np.testing.assert_allclose(blocks, whole, atol=2e-3)


def test_weights_are_learned_on_a_bounded_sample(dated, monkeypatch):
  sizes = []

  def pool_weights(features, *rest):
    sizes.append(features.shape[1])
    return original(features, *rest)

  # Fitted before sizes are counted: the fit would add its own.
  labels = dated.fitted_model.labels

  def fit_weights():
    return expert_panel.fit_expert_weights(
      dated.model.experts, dated.features, labels, corpus.YEARS
    )

  original = regression.fit_pool_weights
  monkeypatch.setattr(regression, "fit_pool_weights", pool_weights)
  all_of_them = fit_weights()
  monkeypatch.setattr(expert_panel, "_MAX_TRAINING_EVENTS", 2)
  few = fit_weights()
  assert sizes[2] == sizes[3] < sizes[0] == sizes[1]
  assert np.isfinite(few.pool_weights).all()
  assert not np.array_equal(few.pool_weights, all_of_them.pool_weights)


def test_mass_of_certain_records_is_that_of_their_months(dated):
  found = dated.date("fitted").posterior
  rows = np.random.default_rng(0).permutation(len(found))
  intervals = [(0, 0), (3, 17), (0, 47)]
  np.testing.assert_allclose(
    found.log_mass(rows, intervals),
    posterior.interval_log_mass(found.log_p(rows), intervals),
    atol=1e-5,
  )


def test_a_question_asked_twice_is_answered_twice(dated):
  queries = [query.text for query in dated.benchmark.queries["test"]]
  everything = {"all": np.ones(len(dated.benchmark.records), bool)}
  found = query_posterior.rank_by_posterior(
    queries[::-1] + queries, dated.date("fitted"), 3, everything
  )
  for values in found["all"]:
    first, second = np.split(values, 2)
    np.testing.assert_array_equal(first[::-1], second)


def test_scores_of_some_events_are_those_of_all(dated):
  features, labels = dated.features, dated.fitted_model.labels
  rows = np.flatnonzero(~labels.is_known & features.is_event)
  panel = expert_panel.fit_panel(
    dated.model.experts, features, labels, dated.fitted_model.weights.by_expert
  )
  some = np.arange(0, len(rows), 3)
  whole = panel.score_events(rows).expert_scores(slice(None))
  part = panel.score_events(rows, some)
  scores = part.expert_scores(slice(None))
  np.testing.assert_allclose(scores, whole[:, some], atol=1e-5)
  without = dataclasses.replace(part, pooling_matrix=None)
  shape = expert_panel.NUM_POOLED, len(some), features.axis.num_years
  assert without.expert_scores(slice(None)).shape == shape
