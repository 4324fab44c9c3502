"""How sure a date is: the probabilities that our words for it stand for."""

CERTAIN, ALMOST, PROBABLE, EVEN, POSSIBLE = 0.98, 0.9, 0.7, 0.5, 0.1
# Least probability and name of each degree; pages have the words.
_DEGREES = (
  (CERTAIN, "certain"),
  (ALMOST, "almost"),
  (PROBABLE, "probable"),
  (EVEN, "even"),
  (POSSIBLE, "possible"),
  (0.0, "hardly"),
)
# Below it no month, season or year is named. Of .5, .6, .7, .8 and .9 the
# lowest at which nine in ten months named are right, on both indexes of
# docs/results/asking.md, of other sentences (--seed=2) whose records were taken
# out.
NAMED = 0.8


def find_degree(chance: float) -> str:
  """Returns the name of how sure a time with a probability is."""
  return next(name for least, name in _DEGREES if chance >= least)
