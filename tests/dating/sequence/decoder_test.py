"""The decoder in O(K) a record agrees with sums over all ways."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from ctd_jax.dating.chronicle import (
  best_path,
  decoder,
  transition_model,
  transitions,
)
from ctd_jax.dating.chronicle.sections import (
  NO_DATE,
  NUM_KINDS,
  SEASON,
  TOLD_IN_ENTRY,
  TOLD_MONTH,
  YEAR,
)

# Two years and a bit, a leap month after the third of the first.
YEARS = np.array([1] * 5 + [2] * 3 + [3])
MONTHS = np.array([2, 3, 3, 4, 12, 1, 4, 5, 1])
SIZE = len(YEARS)
PLACES = SIZE + 1  # the last one is outside of the calendar
MOTION = transition_model.TransitionModel(
  rest=(
    *(0.7, 0.3, 0.2, 0.1, 0.1, 0.2, 0.3),
    *(0.6, 0.4, 0.4, 0.3, 0.5),
  ),
  slip=(
    *(0.0, 0.02, 0.05, 0.1, 0.2, 0.1, 0.05),
    *(0.0, 0.03, 0.0, 0.1, 0.0),
  ),
  ratio=(
    *(0.5, 0.4, 0.3, 0.6, 0.8, 0.7, 0.2),
    *(0.2, 0.3, 0.5, 0.4, 0.3),
  ),
  jump=(
    *(0.07, 0.05, 0.07, 0.06, 0.07, 0.1, 0.02),
    *(0.04, 0.06, 0.05, 0.1, 0.03),
  ),
  back=(
    *(0.03, 0.1, 0.02, 0.05, 0.1, 0.2, 0.3),
    *(0.02, 0.05, 0.1, 0.1, 0.04),
  ),
  restart=(
    *(0.02, 0.01, 0.03, 0.02, 0.05, 0.1, 0.1),
    *(0.01, 0.02, 0.05, 0.1, 0.02),
  ),
  leave=(
    *(0.01, 0.02, 0.03, 0.01, 0.02, 0.05, 0.02),
    *(0.01, 0.02, 0.01, 0.02, 0.01),
  ),
  flashback=(
    *(0.1, 0.2, 0.1, 0.05, 0.1, 0.02, 0.1),
    *(0.1, 0.05, 0.4, 0.3, 0.6),
  ),
)
EARLIER = 0.75  # of the other months that an entry tells of
MONTHS_TOLD = 600  # mean number of months that an entry tells back
# Nothing goes back, and nothing leaves the calendar.
FORWARD = dataclasses.replace(
  MOTION, **{name: (0.0,) * NUM_KINDS for name in ("back", "restart", "leave")}
)


def moves(motion=MOTION, years=YEARS, months=MONTHS):
  return transitions.make_transitions(
    motion, transition_model.find_boundaries(years, months)
  )


def ways(kind, motion=MOTION, years=YEARS, months=MONTHS):
  """[7, P, P] probabilities of each way of moving, from the definition."""
  size = len(years)
  dates = list(zip(years, months, strict=True))
  seasons = [(y, (m - 1) // 3) for y, m in dates]
  each = range(size)
  of_entries = [each, each, each, years, each]
  unit = [*[each] * 3, seasons, *[years] * 3, *of_entries][kind]
  found = np.zeros((7, size + 1, size + 1))
  rest, slip, ratio, jump, back, restart, leave = (
    getattr(motion, name)[kind]
    for name in ("rest", "slip", "ratio", "jump", "back", "restart", "leave")
  )
  for j in range(size):
    later = list(range(j + 1, size))
    outside = [k for k in later if unit[k] != unit[j]]
    from_new_year = list(range(list(years).index(years[j]), size))
    for row, weight, ends in (
      (1, slip, later),
      (2, 1 - rest - slip - jump - back - restart - leave, outside),
      (3, back, from_new_year),
    ):
      shares = np.array([ratio ** (k - ends[0]) for k in ends])
      if ends:
        found[row, j, ends] = weight * shares / shares.sum()
    if later:
      found[4, j, later] = jump / len(later)
    found[5, j, :size] = restart / size
    found[6, j, size] = leave
    found[0, j, j] = 1 - found[:, j].sum()
  found[0, size, size] = 0.9
  found[5, size, :size] = 0.1 / size
  return found


def tell(own, kind, motion=MOTION):
  """[K, K] weights of telling of each month, from each month."""
  size, share = len(own), motion.flashback[kind]
  back = np.arange(size)[:, None] - np.arange(size)
  if kind < TOLD_MONTH:
    other = np.tri(size) / np.arange(1, size + 1)[:, None]
  elif kind == TOLD_IN_ENTRY:
    ratio = np.exp(-1 / MONTHS_TOLD)
    near = np.where(back >= 0, EARLIER * (1 - ratio) * ratio**back, 0)
    far = 1 - EARLIER * (1 - ratio ** np.arange(1, size + 1))
    other = near + far[:, None] / size
  else:
    other = np.full((size, size), 1 / size)
  return ((1 - share) * np.eye(size) + share * other) * own


def outliers(evidence, kinds, motion=MOTION):
  told = np.exp(evidence)
  # The first one moves nothing, and tells of its own month.
  for row, kind in enumerate(kinds[1:], 1):
    told[row, :-1] = tell(told[row, :-1], kind, motion).sum(1)
  return np.log(told)


def chronicle(records, seed=0):
  draw = np.random.default_rng(seed)
  evidence = draw.normal(0, 3, (records, PLACES)).astype(np.float32)
  return evidence, draw.integers(0, NUM_KINDS, records)


def give(evidence):
  """Returns the function that gives the rows of an array."""
  return lambda start, stop: evidence[start:stop]


def find_dates(evidence, kinds, posterior, motion=MOTION):
  """Posterior of the month that each section tells of, [N, P]."""
  dates = posterior.copy()
  for i in range(1, len(evidence)):
    if kinds[i] >= TOLD_MONTH:
      weights = tell(np.exp(evidence[i, :-1]), kinds[i], motion)
      shares = weights / weights.sum(1, keepdims=True)
      dates[i, :-1] = posterior[i, :-1] @ shares
  return dates


def brute_force(evidence, kinds, prior=None, motion=MOTION):
  """Posterior [N, P] and best path, from every sequence of places."""
  count, size = evidence.shape
  prior = np.zeros(size) if prior is None else prior
  told = outliers(evidence, kinds, motion)
  with np.errstate(divide="ignore"):
    sums = [np.log(ways(kind, motion).sum(0)) for kind in kinds]
    best = [np.log(ways(kind, motion).max(0)) for kind in kinds]
  scores = {}
  winner = (-np.inf, None)
  for path in itertools.product(range(size), repeat=count):
    start = prior[path[0]] + sum(told[i, k] for i, k in enumerate(path))
    pairs = list(enumerate(itertools.pairwise(path), 1))
    scores[path] = start + sum(sums[i][pair] for i, pair in pairs)
    way = start + sum(best[i][pair] for i, pair in pairs)
    winner = max(winner, (way, path))
  total = logsumexp(list(scores.values()))
  posterior = np.zeros((count, size))
  for path, score in scores.items():
    for i, k in enumerate(path):
      posterior[i, k] += np.exp(score - total)
  return posterior, np.array(winner[1]), total - logsumexp(prior)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(NUM_KINDS))
def test_a_move_is_the_matrix_of_its_definition(kind):
  made = moves()
  chances = transitions.to_probabilities(made)
  for j in range(PLACES):
    one = jnp.where(jnp.arange(PLACES) == j, 0, -jnp.inf)
    expected, kind_id = ways(kind), jnp.int32(kind)
    assert expected[:, j].sum() == pytest.approx(1)
    np.testing.assert_allclose(
      transitions.propagate_forward(chances, jnp.exp(one), kind_id),
      expected.sum(0)[j],
      atol=1e-6,
    )
    np.testing.assert_allclose(
      np.exp(transitions.propagate_best(made, one, kind_id)),
      expected.max(0)[j],
      atol=1e-6,
    )
    np.testing.assert_allclose(
      transitions.propagate_backward(chances, jnp.exp(one), kind_id),
      expected.sum(0)[:, j],
      atol=1e-6,
    )


@pytest.mark.slow
def test_long_steps_keep_their_weights():
  size = 600
  years, months = np.arange(size) // 12, np.arange(size) % 12 + 1
  chances = transitions.to_probabilities(moves(years=years, months=months))
  one = (jnp.arange(size + 1) == 3).astype(jnp.float32)
  for kind in (NO_DATE, YEAR):
    row = transitions.propagate_forward(chances, one, jnp.int32(kind))
    np.testing.assert_allclose(
      row, ways(kind, MOTION, years, months).sum(0)[3], rtol=2e-4, atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [2, 64])
def test_posterior_and_path_are_those_of_all_sequences(seed, block):
  evidence, kinds = chronicle(4, seed)
  prior = np.random.default_rng(seed).normal(0, 2, PLACES)
  expected, path, likelihood = brute_force(evidence, kinds, prior)
  found = np.zeros_like(expected)
  dates = np.zeros_like(expected)
  emissions = give(evidence)
  for part in decoder.iter_posteriors(emissions, kinds, moves(), prior, block):
    rows = slice(part.start, part.start + len(part.standing))
    found[rows], dates[rows] = part.standing, part.date()
    assert part.log_likelihood == pytest.approx(likelihood, abs=1e-3)
  np.testing.assert_allclose(found, expected, atol=2e-5)
  expected = find_dates(evidence, kinds, expected)
  np.testing.assert_allclose(dates, expected, atol=2e-5)
  decoded = decoder.decode_months(emissions, kinds, moves(), prior, block)
  found_path, _ = best_path.find_best_path(
    emissions, kinds, moves(), prior, block
  )
  assert found_path.tolist() == path.tolist()
  order = np.argsort(-expected, axis=1)[:, :2]
  assert decoded.months.tolist() == order.tolist()
  np.testing.assert_allclose(
    decoded.probabilities, np.take_along_axis(expected, order, 1), atol=2e-5
  )
  np.testing.assert_allclose(decoded.outside, expected[:, -1], atol=2e-5)
  credible = np.split(decoded.credible.ordinals, decoded.credible.starts[1:-1])
  for row, places in zip(expected, credible, strict=True):
    assert row[places].sum() > 0.9 - 1e-4
    assert row[places].sum() - row[places].min() < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("block", [3, 64])
def test_the_place_of_the_calendar_is_hidden_like_the_month(block):
  count, places = 7, 3
  draw = np.random.default_rng(8)
  evidence = draw.normal(0, 3, (count, places, PLACES)).astype(np.float32)
  kinds = draw.integers(0, NUM_KINDS, count)
  turn = draw.dirichlet(np.ones(places), places)
  made = transitions.make_transitions(
    MOTION, transition_model.find_boundaries(YEARS, MONTHS), turn
  )
  prior = draw.normal(0, 2, (places, PLACES))
  told = np.stack(
    [outliers(evidence[:, place], kinds) for place in range(places)], 1
  )
  told = np.exp(told).reshape(count, -1)
  told[0] *= np.exp(prior).ravel()
  steps = [np.kron(turn, ways(kind).sum(0)) for kind in kinds]
  forward, backward = [told[0]], [np.ones(places * PLACES)]
  for i in range(1, count):
    forward.append(told[i] * (forward[-1] @ steps[i]))
    backward.append(steps[-i] @ (told[-i] * backward[-1]))
  expected = np.array(forward) * np.array(backward[::-1])
  total = expected[0].sum()
  found = np.zeros((count, PLACES))
  emissions = give(evidence)
  for part in decoder.iter_posteriors(emissions, kinds, made, prior, block):
    found[part.start : part.start + len(part.standing)] = part.standing
    assert part.log_likelihood == pytest.approx(
      np.log(total / np.exp(prior).sum()), abs=1e-3
    )
  np.testing.assert_allclose(
    found, expected.reshape(count, places, PLACES).sum(1) / total, atol=2e-5
  )
  best, back = told[0], []
  for i in range(1, count):
    scores = best[:, None] * np.kron(turn, ways(kinds[i]).max(0))
    back.append(scores.argmax(0))
    best = told[i] * scores.max(0)
  path = [best.argmax()]
  for step in reversed(back):
    path.append(step[path[-1]])
  months, offsets = best_path.find_best_path(
    emissions, kinds, made, prior, block
  )
  assert months.tolist() == (np.array(path[::-1]) % PLACES).tolist()
  assert offsets.tolist() == (np.array(path[::-1]) // PLACES).tolist()


def test_a_path_goes_back_only_where_the_model_does():
  evidence, kinds = chronicle(400, 6)
  evidence[:, -1] = -100
  for motion, goes_back in ((FORWARD, False), (MOTION, True)):
    path, _ = best_path.find_best_path(
      give(evidence), kinds, moves(motion), block_size=64
    )
    assert (np.diff(path) < 0).any() == goes_back


@pytest.mark.slow
def test_extreme_evidence_leaves_probabilities():
  """Thousands of records that contradict one another by e^200."""
  size = 240
  years, months = np.repeat(np.arange(20), 12), np.tile(np.arange(1, 13), 20)
  draw = np.random.default_rng(0)
  evidence = np.full((2000, size + 1), -200, np.float32)
  evidence[np.arange(2000), draw.integers(0, size, 2000)] = 0
  kinds = draw.integers(0, NUM_KINDS, 2000)
  made = moves(years=years, months=months)
  for part in decoder.iter_posteriors(give(evidence), kinds, made):
    assert np.isfinite(part.log_likelihood)
    np.testing.assert_allclose(part.standing.sum(1), 1, atol=1e-4)
    np.testing.assert_allclose(part.date().sum(1), 1, atol=1e-4)


def test_motion_is_learned_from_a_path():
  years, months = np.repeat(np.arange(40), 12), np.tile(np.arange(1, 13), 40)
  boundary = transition_model.find_boundaries(years, months)
  # Every entry opens a season, one month after it began, and has a second.
  path = np.repeat(np.arange(1, 480, 3), 2)
  kinds = np.tile([SEASON, NO_DATE], len(path) // 2)
  believed = transition_model.TransitionModel(
    rest=(0.5, *[0.1] * (NUM_KINDS - 1))
  )
  learned = transition_model.fit_transition_model(
    believed, path, kinds, boundary
  )
  assert learned.rest[NO_DATE] > 0.9
  assert learned.rest[SEASON] < 0.03
  # The geometric number of months beyond the boundary has mean 1.
  assert learned.ratio[SEASON] == pytest.approx(0.5, abs=0.1)
  assert learned.ratio[YEAR] == believed.ratio[YEAR]
  transitions.make_transitions(learned, boundary)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("last_month", "message"),
  [(2, "section 1: no month is possible in"), (None, "section 1: no month is")],
)
def test_what_evidence_or_order_forbids_is_named(last_month, message):
  evidence = np.full((2, PLACES), -np.inf, np.float32)
  evidence[0, 5] = 0
  if last_month is not None:
    evidence[1, last_month] = 0
  motion = dataclasses.replace(FORWARD, flashback=(0.0,) * NUM_KINDS)
  with pytest.raises(ValueError, match=message):
    best_path.find_best_path(give(evidence), [0, 0], moves(motion))
