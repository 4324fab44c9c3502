"""Messages along links, and what the linked dater must not know."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.dating.linked import block_scoring
from ctd_jax.models import link_messages
from ctd_jax.models.link_messages import LinkBeliefs
from ctd_jax.models.linked_dater import LinkedDater, LinkedDaterConfig
from ctd_jax.models.linked_inputs import (
  Calendar,
  CitedYears,
  CommentInputs,
  DatingInputs,
  EventInputs,
  Links,
  pad_rows,
)

EVENTS, COMMENTS, LINKS, YEARS, REIGNS = 5, 3, 4, 10, 2
NUM_MONTHS = 12 * YEARS
CONFIG = LinkedDaterConfig(readers=("words",), hidden_size=8, dropout=0.0)
NO_SUM = (jnp.ones(1), jnp.zeros(()), jnp.ones(()))


def make_links(rng, size, sources, features=6):
  return Links(
    source=rng.integers(sources, size=(size, LINKS)).astype(np.int32),
    features=rng.uniform(0, 10, (size, LINKS, features)).astype(np.float16),
    is_link=rng.random((size, LINKS)) < 0.7,
  )


def make_inputs(seed=0):
  """Random records of ten years in two reigns of five."""
  rng = np.random.default_rng(seed)
  years = np.arange(YEARS)
  table = np.full((REIGNS, 7), -1)
  table[years // 5, years % 5 + 1] = years
  is_certain = rng.random((EVENTS, LINKS)) < 0.5

  def scores(size):
    return {"words": rng.normal(size=(size, YEARS)).astype(np.float32)}

  return DatingInputs(
    calendar=Calendar(
      year_of=np.repeat(years, 12),
      month_of_year=np.tile(np.arange(12), YEARS),
      has_reign=np.eye(REIGNS, dtype=np.float32)[years // 5],
      year_table=table,
      year_prior=np.full(YEARS, 1 / YEARS, np.float32),
    ),
    events=EventInputs(
      scores=scores(EVENTS),
      date_years=rng.normal(size=(EVENTS, YEARS)).astype(np.float32),
      month_chances=np.full((EVENTS, 12), 1 / 12, np.float32),
      cited_years=CitedYears(
        features=rng.uniform(0, 10, (EVENTS, LINKS, 9)).astype(np.float16),
        is_link=rng.random((EVENTS, LINKS)) < 0.7,
        year=np.where(
          is_certain, rng.integers(YEARS, size=is_certain.shape), -1
        ),
        year_number=rng.integers(1, 6, size=is_certain.shape),
        host=np.where(
          is_certain, -1, rng.integers(COMMENTS, size=is_certain.shape)
        ),
      ),
      parallels=make_links(rng, EVENTS, EVENTS),
      comments=make_links(rng, EVENTS, COMMENTS),
    ),
    comments=CommentInputs(
      scores=scores(COMMENTS),
      commented=make_links(rng, COMMENTS, EVENTS),
    ),
  )


def replace_events(inputs, **fields):
  return inputs.replace(events=inputs.events.replace(**fields))


@pytest.fixture(scope="module")
def params():
  """Parameters away from their initial values, most of which are 0."""
  initial = LinkedDater(CONFIG).init(jax.random.key(0), make_inputs())
  leaves, tree = jax.tree.flatten(initial["params"])
  keys = jax.random.split(jax.random.key(1), len(leaves))
  noisy = [
    leaf + 0.3 * jax.random.normal(key, leaf.shape)
    for leaf, key in zip(leaves, keys, strict=True)
  ]
  return jax.tree.unflatten(tree, noisy)


def score(params, inputs, config=CONFIG):
  return LinkedDater(config).apply({"params": params}, inputs)


def beliefs_of(chances, log_odds):
  """Beliefs in one link into one record."""
  return LinkBeliefs(
    log_p=jnp.log(jnp.array(chances, jnp.float32))[None, None],
    log_odds=jnp.full((1, 1, 1), log_odds),
    chance=jnp.array([[chances[0] + chances[1]]]),
  )


def test_attention_to_one_link_is_its_odds_times_the_belief():
  belief = jnp.array([[0.7, 0.2, 0.1]])
  prior = jnp.full(3, 1 / 3)
  message = link_messages.pass_beliefs(
    jnp.zeros((1, 1), int),
    beliefs_of([0.5, 0.25, 0.125, 0.125], np.log(3.0)),
    belief,
    prior,
    NO_SUM,
  )
  np.testing.assert_allclose(
    message[0], np.log1p(3 * np.array([2.1, 0.6, 0.3])), rtol=1e-5
  )


def test_the_sum_of_links_is_of_chances_and_near_years():
  belief = jnp.array([[1.0, 0.0, 0.0]])
  message = link_messages.pass_beliefs(
    jnp.zeros((1, 1), int),
    beliefs_of([0.5, 0.1, 0.2, 0.2], -30.0),
    belief,
    jnp.full(3, 1 / 3),
    (jnp.zeros(1), jnp.ones(()), jnp.zeros(())),
  )
  # Of the year itself with .6; of either near year with half of .4 x .2.
  near = 0.4 * 0.2 * (3 / 2 - 1)
  expected = np.log1p([0.6 * 2 - 0.08, -0.6 + near, -0.6 + near])
  np.testing.assert_allclose(message[0], expected, rtol=1e-4)


def test_beliefs_are_spread_to_the_years_around():
  beliefs = np.random.default_rng(0).dirichlet(np.ones(12), size=(2, 3))
  expected = np.zeros_like(beliefs)
  for year in range(12):
    near = [
      other
      for other in range(12)
      if 0 < abs(other - year) <= link_messages.MAX_NEAR_YEARS
    ]
    for other in near:
      expected[..., other] += beliefs[..., year] / len(near)
  spread = link_messages._spread_to_near_years(beliefs.astype(np.float32))
  np.testing.assert_allclose(spread, expected, atol=1e-6)
  np.testing.assert_allclose(spread.sum(axis=-1), 1, atol=1e-5)


def test_a_year_without_a_ruler_is_of_the_reigns_of_who_cites():
  cited = CitedYears(
    features=np.zeros((1, 2, 1)),
    is_link=np.array([[True, True]]),
    year=np.array([[-1, 7]]),
    year_number=np.array([[3, 1]]),
    host=np.array([[0, -1]]),
  )
  inputs = make_inputs()
  links = LinkBeliefs(
    log_p=np.zeros((1, 2, 2)),
    log_odds=np.zeros((1, 2, 1)),
    chance=np.zeros((1, 2)),
  )
  message = link_messages.pass_cited_years(
    cited,
    links,
    jnp.array([[0.75, 0.25]]),
    inputs.calendar.year_table,
    jnp.full(YEARS, 0.1),
    NO_SUM,
  )
  expected = np.zeros(YEARS)
  expected[[2, 7]] = np.log1p([0.75 / 0.1, (0.25 + 1) / 0.1])
  np.testing.assert_allclose(message[0], expected, rtol=1e-5)


def test_padding_says_nothing(params):
  inputs = make_inputs()
  scores = score(params, inputs)
  padded = inputs.replace(
    events=pad_rows(inputs.events, EVENTS + 2),
    comments=pad_rows(inputs.comments, COMMENTS + 3),
  )
  padded_scores = score(params, padded)
  for name, term in scores.event_terms.items():
    np.testing.assert_allclose(
      padded_scores.event_terms[name][:EVENTS], term, atol=1e-4
    )
  for name, term in scores.comment_terms.items():
    np.testing.assert_allclose(
      padded_scores.comment_terms[name][:COMMENTS], term, atol=1e-4
    )
  # A link that is none does not speak, whatever its features are.
  links = inputs.events.parallels
  noise = links.replace(
    features=np.where(links.is_link[..., None], links.features, 7).astype(
      np.float16
    )
  )
  other = score(params, replace_events(inputs, parallels=noise))
  np.testing.assert_allclose(other.event_years, scores.event_years, atol=1e-4)


def test_no_parameter_knows_the_calendar(params):
  # Reigns exchanged, with everything that is of their years.
  inputs = make_inputs()
  order = np.roll(np.arange(YEARS), YEARS // 2)  # new year -> old year
  events, cited = inputs.events, inputs.events.cited_years
  moved = replace_events(
    inputs.replace(
      comments=inputs.comments.replace(
        scores={"words": inputs.comments.scores["words"][:, order]}
      ),
      calendar=inputs.calendar.replace(
        has_reign=inputs.calendar.has_reign[order],
        year_table=np.where(
          inputs.calendar.year_table < 0,
          -1,
          (inputs.calendar.year_table + YEARS // 2) % YEARS,
        ),
      ),
    ),
    scores={"words": events.scores["words"][:, order]},
    date_years=events.date_years[:, order],
    cited_years=cited.replace(
      year=np.where(cited.year < 0, -1, (cited.year + YEARS // 2) % YEARS)
    ),
  )
  # Near years are those beside each other: the ends have others now.
  config = dataclasses.replace(CONFIG, use_parallels=False, use_comments=False)
  before, after = (score(params, x, config) for x in (inputs, moved))
  np.testing.assert_allclose(
    after.event_years, before.event_years[:, order], atol=1e-4
  )


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_blocks_of_records_are_scored_as_all_at_once(params, block):
  inputs = make_inputs()
  whole = score(params, inputs)
  in_blocks = block_scoring.score_records(
    LinkedDater(CONFIG), params, inputs, block
  )
  assert jax.tree.structure(whole) == jax.tree.structure(in_blocks)
  for one, other in zip(
    jax.tree.leaves(whole), jax.tree.leaves(in_blocks), strict=True
  ):
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_corpus_without_hidden_records_is_scored(params):
  inputs = make_inputs()
  nothing = inputs.replace(
    events=jax.tree.map(lambda rows: rows[:0], inputs.events),
    comments=jax.tree.map(lambda rows: rows[:0], inputs.comments),
  )
  scores = block_scoring.score_records(LinkedDater(CONFIG), params, nothing)
  assert scores.event_years.shape == (0, YEARS)
  assert scores.comment_years.shape == (0, YEARS)


@pytest.mark.parametrize(
  ("option", "name"),
  [
    ("use_citations", "cited"),
    ("use_parallels", "parallels"),
    ("use_comments", "comments"),
  ],
)
def test_evidence_can_be_left_out(params, option, name):
  scores = score(params, make_inputs())
  without = score(
    params, make_inputs(), dataclasses.replace(CONFIG, **{option: False})
  )
  assert name in scores.event_terms
  assert name not in without.event_terms
  assert np.abs(without.event_years - scores.event_years).max() > 0.01


def test_without_rounds_a_record_is_dated_by_its_own_text(params):
  inputs = make_inputs()
  scores = score(params, inputs, dataclasses.replace(CONFIG, rounds=0))
  assert set(scores.event_terms) == {"prior", "words"}
  assert not np.asarray(scores.event_months).any()


def test_beliefs_reach_records_two_links_away(params):
  inputs = make_inputs()
  chain = Links(
    source=np.array([[1], [2], [0], [0], [0]]),
    features=np.full((EVENTS, 1, 6), 5, np.float16),
    is_link=np.array([[1], [1], [0], [0], [0]], bool),
  )
  config = dataclasses.replace(CONFIG, use_citations=False, use_comments=False)

  def first_years(inputs, rounds):
    config_of_rounds = dataclasses.replace(config, rounds=rounds)
    return np.asarray(score(params, inputs, config_of_rounds).event_years[0])

  inputs = replace_events(inputs, parallels=chain)
  words = inputs.events.scores["words"].copy()
  words[2] = words[2][::-1]
  changed = replace_events(inputs, scores={"words": words})
  np.testing.assert_array_equal(first_years(inputs, 1), first_years(changed, 1))
  assert np.abs(first_years(inputs, 2) - first_years(changed, 2)).max() > 1e-3


def test_gradients_are_finite_where_nothing_is_linked(params):
  inputs = make_inputs()
  nothing = jax.tree.map(np.zeros_like, inputs.events.parallels)
  cited = inputs.events.cited_years
  inputs = replace_events(
    inputs,
    parallels=nothing,
    comments=nothing,
    cited_years=cited.replace(is_link=np.zeros_like(cited.is_link)),
  )

  def loss(params):
    scores = score(params, inputs)
    months = scores.score_months(
      inputs.calendar,
      jnp.arange(EVENTS),
      np.zeros((EVENTS, NUM_MONTHS), np.float16),
    )
    return jax.nn.log_softmax(months)[:, 5].sum()

  for leaf in jax.tree.leaves(jax.grad(loss)(params)):
    assert np.isfinite(leaf).all()


def test_balanced_months_are_as_full_as_they_may_be():
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(30, 8)).astype(np.float32)
  capacity = np.full(8, 30 / 8, np.float32)
  factors = jnp.zeros(8)
  for _ in range(50):
    factors = link_messages.balance_months(
      scores, np.ones(30), np.log(capacity), np.full(8, 3.0), factors
    )
  mass = jax.nn.softmax(scores + factors).sum(axis=0)
  np.testing.assert_allclose(mass, capacity, rtol=1e-3)
  # A month that need not be filled is never raised.
  lowered = link_messages.balance_months(
    scores, np.ones(30), np.full(8, 5.0), np.zeros(8), jnp.zeros(8)
  )
  np.testing.assert_array_equal(lowered, 0)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"heads": 0}, "heads must be 1 or more, got 0"),
    ({"readers": ("word",)}, "readers: unknown 'word'; there are words"),
    ({"rounds": -1}, "rounds must be 0 or more"),
    ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
  ],
)
def test_impossible_sizes_are_named(fields, message):
  with pytest.raises(ValueError, match=message):
    LinkedDaterConfig(**fields)
