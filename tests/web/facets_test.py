"""Facets: their counts add up, and their links keep what they promise."""

import pytest

from ctd_jax.web import queries, search_page


def ask(served, text, **changes):
  query = queries.parse_query({"q": text, **changes}, 1000)
  resolved = queries.resolve_query(served, query)
  return search_page.search(served, resolved)


@pytest.mark.parametrize("text", ["鄭人", "魯隱公二年", "720 BCE"])
def test_each_value_is_as_many_results_as_it_says(served, text):
  found = ask(served, text)
  assert found.facets
  for facet, values in found.facets.items():
    total = sum(value.number for value in values)
    assert total == found.answer.counts["matches"], facet
    for value in values:
      # What a link of a time finds counts by another month if it is unsure.
      if value.query is None or facet in ("reign", "decade"):
        continue
      resolved = queries.resolve_query(served, value.query)
      narrowed = search_page.search(served, resolved).answer.counts["matches"]
      if facet == "certainty":
        assert narrowed >= value.number
      else:
        assert narrowed == value.number, (facet, value.name)


def test_chosen_work_can_be_taken_back(served):
  found = ask(served, "鄭人", work="notes")
  (value,) = found.facets["work"]
  assert value.is_chosen
  assert value.query.works == ()
