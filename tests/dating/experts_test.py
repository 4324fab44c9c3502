"""Each expert of the dating package on invented sentences."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.chronology.reigns import Reign, TimeKey, Timeline
from ctd_jax.dating import corpus, regression
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import (
  citations,
  date_features,
  pairs,
  parallels,
  wording,
  words,
  year_encoder,
)

TIMELINE = Timeline(
  "test", (Reign("甲公", "滄", -700, 6), Reign("丁公", "滄", -694, 6))
)


AXIS = corpus.MonthAxis.from_timeline(TIMELINE)


def ordinal(reign, year, month):
  return TIMELINE.ordinal(TimeKey(reign, year, month))


def make_labels(months, answers=None):
  months = np.array(months)
  return Labels(months, np.ones_like(months) if answers is None else answers)


def read(*texts):
  is_placeholder = np.array(["無事可書" in text for text in texts], bool)
  return corpus.read_corpus(texts, TIMELINE, is_placeholder=is_placeholder)


# --- gallery ---------------------------------------------------------------


def test_what_opens_a_record():
  seen = read(
    "秋七月癸亥，齊人來盟。甲子，盟。九月乙丑，齊人歸。",
    "三年春，王人來。",
    "齊人來盟。",
  )
  assert seen.opening.tolist() == [7, 13, 0]
  assert seen.first_month.tolist() == [7, 1, 0]
  assert seen.opening_year.tolist() == [0, 3, 0]
  # The day of the later month is not of the record's own month.
  assert seen.days[0] == (
    sexagenary.parse_cyclic_index("癸亥"),
    sexagenary.parse_cyclic_index("甲子"),
  )
  assert seen.bodies[1:] == ("王人來", "齊人來盟")


def test_how_an_opening_is_put():
  seen = read(
    "秋，八月癸亥朔，齊人來盟。",
    "八月癸亥，日有食之。",
    "秋，七月。",
    "閏月癸亥晦，齊人來盟。",
    "秋，齊人來盟。",
    "齊人來盟。",
    "秋，七月，日有食之。壬辰，公薨。",
    "秋，七月。壬辰，朔，齊人來盟。",
  )
  assert seen.opening.tolist() == [8, 8, 7, 17, 15, 0, 7, 7]
  assert seen.first_month.tolist() == [8, 8, 7, 0, 7, 0, 7, 7]
  assert seen.opening_manner.tolist() == [1, 0, 3, 0, 0, 0, 1, 1]
  first, last = sexagenary.FIRST_DAY, sexagenary.LAST_DAY
  assert seen.first_day_mark.tolist() == [first, first, 0, last, 0, 0, 0, first]


def test_only_a_short_opening_full_date_is_a_placeholder():
  seen = read(
    "滄甲公二年三月，無事可書。", "齊人來盟在滄甲公二年三月。", "三月，盟。"
  )
  assert seen.placeholder_month.tolist() == [ordinal(1, 2, 3), UNKNOWN, UNKNOWN]


def test_years_of_the_axis_add_up():
  assert (AXIS.num_years, len(AXIS)) == (12, 144)
  assert AXIS.year_index(1, 1) == 6
  assert AXIS.year_index(1, 7) == UNKNOWN
  log_p = np.log(np.full((2, 144), 1 / 144))
  np.testing.assert_allclose(AXIS.to_years(log_p), np.log(1 / 12))


# --- the encoder -------------------------------------------------------------


def years_by_names(count=240):
  """Texts with one name for each half of the timeline."""
  rng = np.random.default_rng(0)
  month = rng.integers(0, 144, count)
  noise = rng.choice(list("丙丁戊己"), (count, 3))
  names = np.where(month < 72, "甲", "乙")
  texts = ["".join(row) for row in np.column_stack([names, noise])]
  # The third and fourth year of either half are never shown.
  hidden = np.isin(month // 12, (2, 3, 8, 9))
  labels = Labels(np.where(hidden, UNKNOWN, month), np.ones(count, int))
  return texts, labels, month, np.flatnonzero(hidden)


def encode_years(texts, labels, rows, expert):
  """Log ratios of years of some texts by an encoder of all of them."""
  inputs = year_encoder.make_encoder_inputs(texts, texts, width=16)
  is_used = np.ones(len(texts), bool)
  return expert.fit_encoder(AXIS, inputs, labels, is_used).log_scores(rows)[0]


@pytest.mark.slow
def test_encoder_reaches_years_without_a_known_record():
  # More known records than 40 updates of 64 records reach.
  texts, known, month, rows = years_by_names(4200)
  assert known.is_known.sum() > 40 * 64
  expert = year_encoder.YearEncoder(seed=3, max_updates=40)
  logs = encode_years(texts, known, rows, expert)
  assert logs.shape == (len(rows), 12)
  late = np.logaddexp.reduce(logs[:, 6:], axis=1)
  early = np.logaddexp.reduce(logs[:, :6], axis=1)
  assert np.mean((late > early) == (month[rows] >= 72)) > 0.95
  # In another order of the records it is the same, and one fit.
  order = np.random.default_rng(1).permutation(len(texts))
  moved = Labels(known.month[order], known.event_labels[order])
  places = np.argsort(order)[rows]
  other = encode_years([texts[i] for i in order], moved, places, expert)
  np.testing.assert_allclose(other, logs, atol=1e-4)
  assert len(expert._params_by_digest) == 1


@pytest.mark.slow
def test_encoder_is_the_same_however_many_updates_a_call_runs(monkeypatch):
  texts, known, _, rows = years_by_names(300)
  scores = []
  for call_updates in (1, 4, 40):  # of 10: one by one, in part, all
    monkeypatch.setattr(year_encoder, "_CALL_UPDATES", call_updates)
    expert = year_encoder.YearEncoder(max_updates=10)
    scores.append(encode_years(texts, known, rows, expert))
  assert np.abs(scores[0]).max() > 0
  for other in scores[1:]:
    np.testing.assert_allclose(other, scores[0], atol=1e-5)


def test_encoder_without_a_known_record_says_nothing():
  texts, known, _, rows = years_by_names()
  none = known.hide_records(np.ones(len(texts), bool))
  expert = year_encoder.YearEncoder(max_updates=40)
  assert not encode_years(texts, none, rows, expert).any()


# --- strings and regressions -----------------------------------------------


def test_strings_are_counted_once_a_text_and_do_not_cross_texts():
  strings, matrix = wording.count_ngrams(["甲乙甲乙", "乙丙"], (1, 2))
  assert sorted(strings.text_counts.tolist()) == [1, 1, 1, 1, 1, 2]
  assert matrix.sum(axis=1).tolist() == [4, 3]
  np.testing.assert_array_equal(
    strings.encode(["乙丙", "丁"]).toarray(), [matrix.toarray()[1], [0] * 6]
  )
  often, _ = wording.count_ngrams(["甲乙甲乙", "乙丙"], (1, 2), min_texts=2)
  assert len(often) == 1


def test_binned_model_learns_what_no_line_can():
  rng = np.random.default_rng(0)
  values = rng.uniform(-1, 1, (2000, 1))
  middle = (np.abs(values[:, 0]) < 0.4).astype(int)
  model = regression.BinnedSoftmax.fit(values, middle, 2)
  chance = model.predict_probability(np.array([[-0.9], [0.0], [0.9]]))
  assert chance[1, 1] > 0.9 > 0.1 > chance[[0, 2], 1].max()
  np.testing.assert_allclose(chance.sum(axis=1), 1, rtol=1e-5)


def test_pool_gives_weight_to_the_expert_that_knows():
  rng = np.random.default_rng(0)
  years = rng.integers(0, 5, 300)
  knows = 2.0 * np.eye(5, dtype=np.float32)[years]
  knows += rng.normal(size=knows.shape).astype(np.float32)
  guesses = rng.normal(size=(300, 5)).astype(np.float32)
  weights = regression.fit_pool_weights(
    np.stack([knows, guesses]), np.zeros((300, 5)), years, 1e-3
  )
  assert weights[0] > 0.8 > 0.2 > abs(weights[1])


# --- cues and days ---------------------------------------------------------


def fit_dates(seen, months, **switches):
  return date_features.DateFeatures(**switches).fit_tables(
    seen, make_labels(months), ~seen.is_placeholder
  )


def test_openings_year_numbers_and_placeholders():
  seen = read(
    *["秋，齊人來盟。"] * 6,
    "秋，宋人來盟。",
    "四年，衛人來盟。",
    "滄甲公二年七月，無事可書。",
  )
  months = [ordinal(1, year, 7) for year in range(1, 7)] + [UNKNOWN] * 3
  table = fit_dates(seen, months)
  season, number = table.log_scores(np.array([6, 7]))
  axis = seen.axis
  assert set(axis.month_of_year[season > 1]) == {7}
  assert set(axis.year_number[axis.year_of[number > -1]]) == {4}
  assert season[ordinal(1, 2, 7)] < season[ordinal(1, 3, 7)] - 5
  free = fit_dates(seen, months, use_openings=False, use_placeholders=False)
  assert np.ptp(free.log_scores(np.array([6]))) < 1e-6
  # What a record looks like makes it no placeholder.
  assert not corpus.read_corpus(seen.texts, TIMELINE).is_placeholder.any()


def test_a_season_is_named_where_its_first_month_is_empty():
  even = [
    f"滄{name}公{year}年七月，無事可書。" for name in "甲丁" for year in "二四"
  ]
  told = [(1, 1, "八月，"), (1, 3, "八月，"), (1, 5, "八月，")]
  told += [(1, 2, "秋，八月，"), (1, 4, "秋，八月，"), (2, 2, "秋，八月，")]
  seen = read(
    *even,
    *[opening + "齊人來盟。" for *_, opening in told],
    "秋，八月，宋人來盟。",
    "八月，宋人來盟。",
  )
  months = [UNKNOWN] * 4
  months += [ordinal(reign, year, 8) for reign, year, _ in told]
  months += [UNKNOWN] * 2
  table = fit_dates(seen, months)
  named, unnamed = table.log_scores(np.array([10, 11]))
  after_empty, after_filled = ordinal(2, 4, 8), ordinal(2, 3, 8)
  assert named[after_empty] > named[after_filled] + 0.5
  assert unnamed[after_filled] > unnamed[after_empty] + 0.5
  # Nor are placeholders read in years of which no record is known.
  dark = fit_dates(seen, months, use_placeholders=False)
  named, unnamed = dark.log_scores(np.array([10, 11]))
  assert named[after_empty] == named[after_filled]
  assert unnamed[after_empty] == unnamed[after_filled]
  assert not dark.tables.placeholder_log_ratios.any()
  blind = fit_dates(seen, months, use_seasons=False)
  named, unnamed = blind.log_scores(np.array([10, 11]))
  np.testing.assert_array_equal(named, unnamed)
  assert named[after_empty] == named[after_filled]


@pytest.mark.slow
def test_a_day_points_to_the_months_that_hold_it():
  # 桓 3.7 has an eclipse on 壬辰, the first day of the month.
  timeline = reigns.load_timeline("lu_release")
  month = timeline.ordinal(TimeKey(2, 3, 7))
  moons = sexagenary.find_new_moons(
    sexagenary.to_julian_day(-708, 7, 1), sexagenary.to_julian_day(-708, 7, 31)
  )
  day = sexagenary.parse_cyclic_index("壬辰")
  assert sexagenary.cyclic_index_of_day(moons[0]) == day
  seen = corpus.read_corpus(["七月壬辰朔，日有食之。"], timeline)
  held = date_features.estimate_day_chances(
    seen.axis, seen, make_labels([month])
  )
  assert held[month, sexagenary.ANY_DAY, day] > 0.7
  assert held[month, sexagenary.FIRST_DAY, day] > 0.5
  assert held[month, sexagenary.LAST_DAY, day] < 0.4
  # Within the month it is no first day; 45 days later no day of the month.
  assert held[month, sexagenary.ANY_DAY, (day + 10) % 60] > 0.7
  assert held[month, sexagenary.FIRST_DAY, (day + 10) % 60] < 0.3
  assert held[month, sexagenary.ANY_DAY, (day + 45) % 60] < 0.3
  assert held.shape == (3036, 3, 60)
  assert held.max() <= 1 + 1e-6


def test_a_leap_month_has_a_first_day():
  axis = corpus.MonthAxis.from_timeline(reigns.load_timeline("lu_release"))
  calendar = date_features.make_lunations(
    axis.civil_year, axis.year_of, axis.month_of_year
  )
  month = int(np.flatnonzero(axis.month_of_year == 12)[20])
  place = 1
  first, leap = (
    np.flatnonzero(
      calendar.has_day[calendar.lunation_index[month, place] + after]
    )
    for after in (0, 1)
  )
  held = calendar.day_chances_by_offset[place, month]
  (begins,) = set(leap) - {(day + 1) % 60 for day in leap}
  assert held[sexagenary.FIRST_DAY, begins] == 0.5
  assert (held[sexagenary.ANY_DAY, first] == 1).all()
  assert (held[sexagenary.ANY_DAY, leap] == 0.5).all()


# --- vocabulary ------------------------------------------------------------


def test_names_point_to_their_years():
  early, late = "公子衍", "公子煦"
  texts = [f"{early}盟于桃丘", f"{late}盟于柘泉"] * 40
  months = [ordinal(1 + i % 2, 2 + 2 * (i % 2), 1 + i % 12) for i in range(80)]
  texts += [f"{early}帥師", f"{late}帥師"]
  strings, matrix = wording.count_ngrams(texts, (1, 2, 3))
  fitted = fit_words(texts, strings, matrix, [*months, UNKNOWN, UNKNOWN])
  weighted = dataclasses.replace(fitted, weights=np.ones(3))
  rows = np.array([80, 81])
  scores = weighted.year_scores(rows)
  assert scores[0].argmax() < 6 <= scores[1].argmax()
  np.testing.assert_allclose(
    fitted.log_scores(rows).sum(axis=0), scores, rtol=1e-4
  )
  # The name is the evidence, not the verb that both texts share.
  note = weighted.explain(80, 1).note
  assert "衍" in note
  assert "帥" not in note


def test_strings_of_one_history_are_scored_once():
  texts = ["衍盟某", "煦盟某", "衍煦某", "某盟衍盟"] * 5
  strings, matrix = wording.count_ngrams(texts, (1, 2))
  fitted = fit_words(texts, strings, matrix, [0, 40, 20, UNKNOWN] * 5)
  rows = np.arange(len(texts))
  scores = fitted.log_scores(rows)
  held = strings.encode(texts)
  for kernel, density in enumerate(fitted.densities):
    expected = held @ density.log_ratios(fitted.counts)
    np.testing.assert_allclose(scores[kernel], expected, rtol=1e-4, atol=1e-5)
  blocks = list(fitted._iter_blocks(rows))
  # Which texts hold a string is no matter, but which years do.
  histories = np.unique(fitted.counts.toarray(), axis=0)
  num_distinct = int(histories.any(axis=1).sum())
  assert sum(counts.shape[0] for *_, counts in blocks) == num_distinct


def test_texts_that_hold_a_string_are_counted_without_the_others():
  strings = wording.collect_ngrams(["公會齊侯", "會齊"], (2, 3))
  texts = ["會齊會齊侯", "公會", "齊侯", "", "無"] * 3
  occurrences = wording.Occurrences.find(texts, (2, 3))
  np.testing.assert_array_equal(
    strings.count_texts(occurrences), strings.encode(texts).sum(axis=0)
  )
  none = strings.select_columns(np.zeros(0, int))
  assert none.count_texts(occurrences).tolist() == []


def fit_words(texts, strings, matrix, months):
  groups = (np.arange(len(strings)),)
  sample = np.arange(len(texts))
  year_vocabulary = wording.YearVocabulary(
    texts, strings, groups, sample, matrix
  )
  counts = year_vocabulary.count_by_year(
    AXIS, make_labels(months), np.ones(len(texts), bool)
  )
  return words.FittedWords(vocabulary=year_vocabulary, counts=counts)


# --- wording, citations, links ---------------------------------------------

EVENTS = ("公會齊侯于桃丘，盟于榆泉。", "公會宋公于梓門。", "公會齊侯于槐谷。")
# Strings are rare or not among many events.
OTHERS = tuple(
  f"{state}人伐{other}。" for state in "杞燕滕薛" for other in "陳蔡曹許"
)


def test_rare_shared_strings_find_the_event():
  index = wording.build_string_index(
    [corpus.plain_text(text) for text in EVENTS * 3 + OTHERS]
  )
  overlap = index.overlap(index.encode(["昔者盟于榆泉矣"]))
  rows, columns, values = wording.select_top_entries(overlap, 3)
  assert set(columns.tolist()) == {0, 3, 6}
  assert set(rows.tolist()) == {0}
  assert wording.row_max(overlap)[0] == values[0]
  assert wording.row_max(scipy.sparse.csr_array((2, 3))).tolist() == [0, 0]


def test_citations_and_their_readings():
  text = "盟于榆泉在甲三年丁五年傳宋人伐晉六年又伐衛三年之喪"
  found = pairs.read_citations(AXIS, {7: text})
  years = [(each.reign, each.year_number, each.work_marker) for each in found]
  assert years == [(0, 3, ""), (1, 5, "傳"), (UNKNOWN, 6, "")]
  assert found[0].preceding_character == "在"
  assert found[0].text_before == "盟于榆泉在"
  # However long the text is that goes on after it.
  long_text = text + "衛人城之" * 20
  assert pairs.read_citations(AXIS, [long_text])[0].text_before == "盟于榆泉在"
  assert found[1].text_after == "宋人伐晉"
  assert found[2].preceding_reign == 1
  assert found[2].host == 7
  assert pairs.read_citations(AXIS, [text])[0].host == UNKNOWN


def cited(texts, months):
  seen = read(*texts)
  told = np.array([0, 1, 2])
  index = wording.build_string_index(
    [*(seen.bodies[row] for row in told), *OTHERS]
  )
  comments = {3: seen.plain_texts[3]}
  found = pairs.make_citation_pairs(
    seen, told, index, pairs.read_citations(seen.axis, comments)
  )
  return seen.axis, found, make_labels(months), told


def cited_scores(axis, found, chance, known, hosts=None):
  """Scores of three events, [SCORES, 3, Y]."""
  hosts = hosts or {}
  scores = citations.score_years(
    axis,
    found,
    pair_rows=np.arange(len(found.event_index)),
    pair_chances=chance,
    hosts=citations.HostTimes(
      labels=known,
      year_prior=np.full(axis.num_years, 1 / axis.num_years),
      undated=np.array(list(hosts), int),
      reign_chances=np.array(list(hosts.values()), float).reshape(-1, 2),
    ),
    event_rows=np.arange(3),
  )
  return np.stack([score.toarray() for score in scores])


def test_a_cited_year_dates_the_event_told_beside_it():
  axis, found, known, _ = cited(
    [*EVENTS, "甲三年會于梓門此又會之"], [UNKNOWN, UNKNOWN, UNKNOWN, 80]
  )
  chance = np.where(found.event_index == 1, 0.9, 0.01).astype(np.float32)
  scores = cited_scores(axis, found, chance, known)
  assert scores[0, 1].argmax() == axis.year_index(0, 3)
  assert scores[0, 1].max() > scores[0, 0].max()


def test_a_year_without_ruler_follows_the_host_or_its_belief():
  texts = [*EVENTS, "三年會于梓門此又會之"]
  axis, found, known, _ = cited(texts, [UNKNOWN] * 3 + [ordinal(2, 5, 1)])
  assert set(citations.resolve_years(axis, found, known)) == {
    axis.year_index(1, 3)
  }
  hidden = known.hide_records(np.ones(4, bool))
  assert set(citations.resolve_years(axis, found, hidden)) == {UNKNOWN}
  chance = np.full(len(found.event_index), 0.9, np.float32)
  scores = cited_scores(axis, found, chance, hidden, {3: [0.2, 0.8]})
  likely, other = (axis.year_index(reign, 3) for reign in (1, 0))
  assert scores[0, 1, likely] > scores[0, 1, other] > 0


def test_parallels_are_paired_and_never_with_themselves():
  seen = read(*EVENTS, *EVENTS, *OTHERS)
  rows = np.arange(len(seen))
  index = wording.build_string_index(seen.bodies)
  found = pairs.make_parallel_pairs(seen, rows, index, rows, list(seen.bodies))
  assert np.all(found.record_row != found.event_row)
  order = np.argsort(found.features[:, 0])
  best = dict(zip(found.record_row[order], found.event_row[order], strict=True))
  assert [best[row] for row in range(6)] == [3, 4, 5, 0, 1, 2]


def link_to_first(sources, size):
  """Returns the graph of links from the sources to record 0."""
  chances = np.full(len(sources), 0.9, np.float32)
  return parallels.LinkGraph(
    target=np.zeros(len(sources), int),
    source=np.array(sources),
    month_chance=chances,
    year_chance=chances,
    size=size,
  )


def test_a_message_moves_a_belief_and_copies_do_not_multiply_it():
  scores = np.zeros((4, 5), np.float32)
  scores[1:, 2] = 3
  prior = np.full(5, 0.2)

  one, three = (
    parallels.propagate_beliefs(link_to_first(sources, 4), scores, prior)[0]
    for sources in ([1], [1, 2, 3])
  )
  assert one.argmax() == 2
  assert one[2] > 0.3
  assert three[2] < 2 * one[2]
  extreme = parallels.propagate_beliefs(
    link_to_first([1], 4), scores * 1e4, prior
  )
  assert np.isfinite(extreme).all()


def test_pooled_takes_the_best_citation_of_a_parallel():
  scores = np.zeros((citations.NUM_SCORES, 2, 5), np.float32)
  scores[0, 1, 3] = 6
  flat = np.zeros((2, 5), np.float32)
  pooled = parallels.pool_parallels(
    parallels.make_pooling_matrix(link_to_first([1], 2)),
    list(map(scipy.sparse.csr_array, scores)),
    flat,
    flat,
    np.arange(2),
  )
  assert pooled.shape == (parallels.NUM_POOLED, 2, 5)
  assert pooled[0, 0].argmax() == 3
  assert 5 < pooled[0, 0, 3] < 6
  assert not pooled[:4, 1].any()


# --- room and folds --------------------------------------------------------


def test_two_openings_take_two_years():
  # Two months; both records prefer the first, one of them less.
  log_p = np.log(np.array([[0.9, 0.1], [0.6, 0.4]], np.float32))
  factors = date_features.fit_month_log_factors(
    lambda: [log_p], np.array([1.0, 1.0]), np.array([True, True])
  )
  balanced = np.exp(log_p + factors)
  balanced /= balanced.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(balanced.sum(axis=0), 1, atol=0.05)
  assert balanced[0, 0] > balanced[1, 0]


def test_room_is_what_known_records_leave():
  space, must_fill = date_features.compute_month_capacity(
    np.array([0, 4, 2, 0]), np.array([0, 9, 3, 0]), np.array([0, 0, 0, 1], bool)
  )
  assert space[0] > space[2] > space[1] > space[3] > 0
  assert must_fill.tolist() == [True, False, False, False]


def test_folds_are_blocks_of_two_or_three_years():
  timeline = reigns.load_timeline("lu_release")
  axis = corpus.MonthAxis.from_timeline(timeline)
  months = np.arange(len(timeline))
  months[12 * 20 : 12 * 23] = UNKNOWN
  fold = corpus.assign_folds(axis, make_labels(months))
  assert np.all((fold == UNKNOWN) == (months == UNKNOWN))
  years = fold[axis.year_starts]
  assert np.all(fold == years[axis.year_of])
  runs = np.diff(np.flatnonzero(np.diff(years, prepend=-9, append=-9)))
  assert runs.max() <= 3
  assert np.mean(runs >= 2) > 0.8
  assert set(years) == {UNKNOWN, *range(corpus.NUM_FOLDS)}
