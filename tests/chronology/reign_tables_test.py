"""Reign tables and years of the common era."""

import collections
import itertools

import pytest

from ctd_jax.chronology import calendar_tables, numerals, western_dates
from ctd_jax.chronology import reigns as reigns_lib
from ctd_jax.chronology.reigns import Reign, TimeKey, Timeline
from tests.tools import processes

HEADER = "\t".join(reigns_lib.TABLE_COLUMNS) + "\n"


def test_dukes_of_lu():
  lu = reigns_lib.load_timeline("lu")
  dukes = "".join(row.name for row in lu.reigns).split("公")
  assert dukes == [*"隱桓莊閔僖文宣成襄昭定哀", ""]
  years = [11, 18, 32, 2, 33, 18, 18, 18, 31, 32, 15, 27]
  assert [row.years for row in lu.reigns] == years
  assert lu.reigns[0].accession == -721
  # No year of Lu is missing or counted twice.
  for row, following in zip(lu.reigns, lu.reigns[1:], strict=False):
    assert row.accession + row.years == following.accession


def test_released_map_is_lu_without_two_years():
  lu, released = map(reigns_lib.load_timeline, ("lu", "lu_release"))
  assert len(released) == 3036
  assert released.class_counts == (12, 32, 12)
  assert set(lu.months) - set(released.months) == {
    TimeKey(reign, year, month)
    for reign, year in ((5, 33), (12, 27))
    for month in range(1, 13)
  }


def test_mini_is_invented_and_small():
  mini = reigns_lib.load_timeline("mini")
  assert len(mini) == 360
  assert mini.full_reign_name(1) == "滄懷公"
  text = (reigns_lib.reign_table_dir() / "mini.tsv").read_text(encoding="utf-8")
  assert all(line.endswith("\tinvented") for line in text.splitlines()[1:])


@pytest.mark.parametrize(
  ("name", "first", "last"),
  [
    ("wei", 220, 265),
    ("jin", 265, 420),
    ("liu_song", 420, 479),
    ("southern_qi", 479, 502),
  ],
)
def test_eras_cover_their_dynasty_without_a_gap(name, first, last):
  rows = reigns_lib.load_timeline(name).reigns
  covered = {
    year
    for row in rows
    for year in range(row.accession, row.accession + row.years)
  }
  assert covered == set(range(first, last + 1))
  for row, following in itertools.pairwise(rows):
    # An era ends in the year the next begins, or the year before.
    assert following.accession - (row.accession + row.years) in (-1, 0)


@pytest.mark.parametrize(
  ("name", "era", "year", "western"),
  [
    ("wei", "正始", 10, 249),
    ("jin", "太康", 1, 280),
    ("jin", "永嘉", 5, 311),
    ("jin", "太元", 8, 383),
    ("jin", "義熙", 13, 417),
    ("liu_song", "元嘉", 27, 450),
    ("southern_qi", "永明", 11, 493),
  ],
)
def test_well_known_years(name, era, year, western):
  calendar = reigns_lib.load_timeline(name)
  reign = [row.name for row in calendar.reigns].index(era) + 1
  key = TimeKey(reign, year, 1)
  assert reigns_lib.astronomical_year_of(calendar, key) == western


def test_year_in_which_the_era_changes_has_both_names():
  wei = reigns_lib.load_timeline("wei")
  keys = reigns_lib.keys_of_year(wei, 249)
  assert {(wei.reigns[key.reign - 1].name, key.year) for key in keys} == {
    ("正始", 10),
    ("嘉平", 1),
  }
  assert len(keys) == 24
  assert reigns_lib.keys_of_year(wei, 300) == ()


@pytest.mark.parametrize(
  ("name", "year", "names"),
  [
    ("jin", 304, ["永安"] * 6 + ["建武"] * 5 + ["永興"]),
    ("jin", 291, ["永平"] * 2 + ["元康"] * 10),
    ("jin", 402, ["元興"] * 12),
    ("wei", 249, ["正始"] * 3 + ["嘉平"] * 9),
    ("southern_qi", 494, ["隆昌"] * 6 + ["延興"] * 3 + ["建武"] * 3),
    ("southern_qi", 479, ["建元"] * 9),
    ("southern_qi", 700, []),
  ],
)
def test_months_bear_the_name_of_their_time(name, year, names):
  calendar = reigns_lib.load_timeline(name)
  rows, keys = (calendar.reigns, reigns_lib.keys_in_use_in_year(calendar, year))
  assert [rows[key.reign - 1].name for key in keys] == names
  assert [key.month for key in keys] == list(range(13 - len(names), 13))


@pytest.mark.slow
def test_tongjian_heads_every_year_once():
  calendar = reigns_lib.load_timeline("tongjian")
  assert len(calendar) == 12 * (501 - 220 + 1)
  for row, following in itertools.pairwise(calendar.reigns):
    assert row.accession + row.years == following.accession
  # Every head is a name that the year had, the last one it was given.
  for year in range(220, 502):
    key = reigns_lib.keys_of_year(calendar, year)[0]
    headed = calendar.reigns[key.reign - 1]
    names = []
    for table in ("wei", "jin", "liu_song", "southern_qi"):
      dynasty = reigns_lib.load_timeline(table)
      for other in reigns_lib.keys_in_use_in_year(dynasty, year):
        row = dynasty.reigns[other.reign - 1]
        names.append((row.state, row.name, other.year))
    assert (headed.state, headed.name, key.year) in names, year


@pytest.mark.slow
def test_keys_of_year_inverts_year_of():
  lu = reigns_lib.load_timeline("lu")
  keys_by_year = collections.defaultdict(list)
  for key in lu.months:
    keys_by_year[reigns_lib.astronomical_year_of(lu, key)].append(key)
  for year, keys in keys_by_year.items():
    assert reigns_lib.keys_of_year(lu, year) == tuple(keys)
  assert keys_by_year[-721][0] == TimeKey(1, 1, 1)


def test_common_era_round_trips():
  assert reigns_lib.format_common_era_year(-721) == "722 BCE"
  assert reigns_lib.format_common_era_year(0) == "1 BCE"
  assert reigns_lib.format_common_era_year(1) == "1 CE"
  for year in range(-900, 900):
    text = reigns_lib.format_common_era_year(year)
    assert western_dates.parse_year(text) == year


@pytest.mark.parametrize(
  ("text", "year"),
  [
    ("公元前722年", -721),
    ("前479年", -478),
    ("280", 280),
    ("西元502年", 502),
    ("西暦1587年", 1587),
    ("-0721", -721),
    ("A.D. 787", 787),
  ],
)
def test_other_ways_to_write_a_year(text, year):
  assert western_dates.parse_year(text) == year


@pytest.mark.parametrize(
  "text", ["0 CE", "0", "", "722 BEC", "前722 BCE", "1587-05"]
)
def test_impossible_years_are_quoted(text):
  with pytest.raises(ValueError, match="not a year"):
    western_dates.parse_year(text)


def test_unknown_timeline_lists_the_known():
  with pytest.raises(ValueError, match="lu_release"):
    reigns_lib.load_timeline("chu")


@pytest.mark.parametrize(
  ("content", "location"),
  [
    ("name\tyears\n", "line 1"),
    (HEADER, "no reigns"),
    (HEADER + "甲公\t某\t-10\n", "line 2: 3 columns"),
    (HEADER + "甲公\t某\t-10\t1\tx\t\ts\n", "line 2: column 'years'"),
    (HEADER + "甲公\t某\t-10\t1\t0\t\ts\n", "line 2: column 'years'"),
    (HEADER + "甲公\t某\t-10\t13\t3\t\ts\n", "line 2: column 'month'"),
    (HEADER + "甲公\t某\t-10\t\t3\t\ts\n", "line 2: column 'month'"),
    (HEADER + "甲公\t某\t-10\t1\t3\t\t\n", "line 2: column 'source'"),
    (
      HEADER + "甲公\t某\t-10\t1\t3\t\ts\n乙公\t某\t-20\t1\t3\t\ts\n",
      "line 3: 乙公 begins in -20",
    ),
  ],
)
def test_bad_tables_are_located(tmp_path, content, location):
  path = tmp_path / "bad.tsv"
  path.write_text(content, encoding="utf-8")
  with pytest.raises(ValueError, match=location) as caught:
    reigns_lib.read_reign_table(path)
  assert "bad.tsv" in str(caught.value)


def test_a_mark_of_the_byte_order_is_no_text(tmp_path):
  path = tmp_path / "table.tsv"
  path.write_text(HEADER + "甲公\t某\t-10\t4\t3\t\ts\n", "utf-8-sig")
  assert reigns_lib.read_reign_table(path) == (
    Reign("甲公", "某", -10, 3, first_month=4),
  )


def test_months_before_an_accession():
  jin = reigns_lib.load_timeline("jin")
  number = [row.name for row in jin.reigns].index("永熙") + 1
  early = [
    key.month
    for key in jin.months
    if key.reign == number and reigns_lib.precedes_accession(jin, key)
  ]
  assert early == [1, 2, 3]
  # 資治通鑑 gives the whole year the name of its last era.
  tongjian = reigns_lib.load_timeline("tongjian")
  assert not any(
    reigns_lib.precedes_accession(tongjian, key) for key in tongjian.months
  )


def test_every_ruler_of_an_era_is_in_the_table_of_rulers():
  for name in ("wei", "jin", "liu_song", "southern_qi", "tongjian"):
    for row in reigns_lib.load_timeline(name).reigns:
      assert row.state in calendar_tables.load_ruler_table()
      names = calendar_tables.ruler_names(row.state)
      assert numerals.fold_script(row.state[1:]) in names.names
      assert numerals.fold_script(row.state[0]) in names.dynasties


def test_chronology_loads_no_heavy_library():
  heavy = "jax jaxlib tensorflow tensorflow_datasets ctd_jax_datasets sxtwl"
  loaded = processes.list_loaded_modules(
    "from ctd_jax.chronology import annals, questions, reigns\n"
    "list(map(reigns.load_timeline, reigns.timeline_names()))"
  )
  assert not loaded & set(heavy.split())


def test_reign_labels_are_latin():
  reigns = (Reign("隱公", "魯", -721, 11), Reign("泰始", "", 265, 10))
  labels = reigns_lib.make_reign_labels(Timeline("t", reigns))
  assert labels == ["Yin", "reign 2"]


def test_a_ruler_of_the_calendars_has_all_names():
  """In a table of the user's, a reign of 唐太宗 is found as 太宗文皇帝 too."""
  names = calendar_tables.ruler_names("宋徽宗")
  assert set(names.dynasties) >= {"宋", "北宋"}
  assert set(names.names) >= {"徽宗", "趙佶"}
  # One that neither table has is read from what it is called.
  assert calendar_tables.ruler_names("漢明帝").names == ("明帝", "明皇帝")


def test_the_calendars_have_every_name_of_the_table_of_rulers():
  known = [
    [set(map(numerals.fold_script, x.names)) for x in (era.polity, era.ruler)]
    for era in calendar_tables.load_eras()
    if era.ruler
  ]
  for state, ruler in calendar_tables.load_ruler_table().items():
    assert any(
      set(ruler.dynasties) <= dynasties and set(ruler.names) <= names
      for dynasties, names in known
    ), state
