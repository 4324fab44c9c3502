"""Periods, names of times, years between, and the tables they rest on."""

import collections

import pytest

from ctd_jax_datasets.ctm import (
  ctm_dataset_builder,
  periods,
  repository,
  schema,
)
from ctd_jax_datasets.ctm.periods import EARLIER, LATER
from ctd_jax_datasets.ctm.schema import Anachronism, Relation

# Labels accepted, of which the last is counted -> years.
BOUNDARIES = {
  "": (-2101, 1913),
  "先秦": (-2100, -221, -207),
  "先秦 汉": (-206,),
  "汉": (219,),
  "汉 六朝": (220,),
  "六朝": (580,),
  "六朝 隋": (581, 588, 589),
  "隋": (590, 617),
  "隋 唐": (618,),
  "唐": (906,),
  "唐 五代": (907,),
  "五代": (959,),
  "五代 宋": (960,),
  "宋": (1271, 1278),
  "宋 元": (1279,),
  "元": (1367,),
  "元 明": (1368,),
  "明": (1643,),
  "明 清": (1644,),
  "清": (1912,),
}
# Labels -> names in either script.
NAMES_BY_LABELS = {
  "先秦": "春秋 战国 戰國 秦 秦朝 西周",
  "汉": "东汉 東漢 漢 新莽",
  "六朝": "三国 三國 西晋 刘宋 南朝宋 北魏 北周",
  "唐": "武周 盛唐",
  "五代": "后周 十国 南唐",
  "宋": "北宋 南宋 金 西夏",
  "明": "南明",
  "清": "后金 晚清",
  "隋 唐": "隋唐",
  "五代 宋": "辽 遼",
  "明 清": "明清",
  "汉 五代": "后汉",
  "": "民国 罗马",
}
ALIASES = {
  name: labels
  for labels, names in NAMES_BY_LABELS.items()
  for name in names.split()
}


@pytest.mark.parametrize("accepted", BOUNDARIES)
def test_boundary_years(accepted):
  labels = tuple(accepted.split())
  for year in BOUNDARIES[accepted]:
    found = periods.find_period(year)
    assert (found and found.label) == (labels[-1] if labels else None)
    assert periods.list_acceptable_labels(year) == labels


def test_there_is_no_year_0():
  for call in (periods.find_period, periods.list_acceptable_labels):
    with pytest.raises(ValueError, match="year 0"):
      call(0)
  with pytest.raises(ValueError, match="year 0"):
    periods.count_years_between(-1, 0)


@pytest.mark.parametrize("name", ALIASES)
def test_alias_table(name):
  labels = {
    label for alias in periods.find_aliases(name) for label in alias.labels
  }
  assert periods.sort_labels(labels) == tuple(ALIASES[name].split())


@pytest.mark.parametrize(
  ("names", "expected"),
  [("辽 金 西夏 十国 新 北元", True), ("东汉 北宋 三国 南明 后金", False)],
)
def test_flagged_are_the_names_mapped_by_convention(names, expected):
  for name in names.split():
    found = {alias.is_convention for alias in periods.find_aliases(name)}
    assert found == {expected}, name


def test_aliases_lie_in_the_period_they_are_mapped_to():
  for alias in periods.load_aliases():
    if len(alias.labels) == 1 and not alias.is_convention:
      held = periods.get_period(alias.labels[0])
      # 五代十国 goes on to 979; the other two are dynasties before and after.
      is_within = held.start <= alias.start and alias.end <= held.end
      assert is_within or alias.name in ("五代十国", "后金", "南明"), alias.name


@pytest.fixture
def replace_table(tmp_path, monkeypatch):
  """Has one table read from these lines, the others as they are."""
  table_path = periods.table_path

  def replace(name, columns, *lines):
    path = tmp_path / f"{name}.tsv"
    path.write_text(
      "\n".join((columns.replace(" ", "\t"), *lines, "")), "utf-8"
    )
    monkeypatch.setattr(
      periods,
      "table_path",
      lambda table: path if table == name else table_path(table),
    )

  return replace


def test_spans_made_of_other_names_are_theirs():
  # The first of a name: the ten labels precede the regimes.
  spans = {}
  for alias in periods.load_aliases():
    spans.setdefault(alias.name, (alias.start, alias.end))
  rows = [
    row for row in periods.read_rows() if row["source"] == periods.OTHER_NAMES
  ]
  assert len(rows) > 10
  for row in rows:
    (place,) = periods.split_checked(row).places
    first, last = place.removeprefix("names ").split(", ")
    found = spans[first][0], spans[last][1]
    assert found == (int(row["start"]), int(row["end"])), row["name"]


def test_name_that_was_not_looked_up_is_refused(replace_table):
  columns = " ".join(periods.REGIME_COLUMNS)
  replace_table("regimes", columns, "甲\t\t700\t750\t\t0\t史記\t")
  with pytest.raises(ValueError, match="column 'checked' is empty"):
    periods.load_aliases.__wrapped__()


@pytest.mark.parametrize(
  ("text", "labels"),
  [
    ("此人活动于东汉末年至三国时期。", "汉 六朝"),
    ("隋末唐初", "隋 唐"),
    ("答案：唐", "唐"),
    ("答案是宋代。", "宋"),
    ("明白了，很清楚。", ""),
    ("由《春秋》可知", ""),
    ("第五代孙", ""),
    ("南唐後主", "五代"),
  ],
)
def test_dynasty_words_in_text(text, labels):
  assert periods.find_period_labels(text) == tuple(labels.split())


def test_worked_example_of_a_time_difference():
  # 屈原 died in 278 BCE, 李白 was born in 701, 苏轼 in 1037.
  assert periods.count_years_between(-278, 701) == (978, 979)
  assert periods.count_years_between(701, -278) == (978, 979)
  assert periods.sum_years_along([-278, 701, 1037]) == (1314, 1315)
  assert periods.count_years_between(701, 1037) == (336, 336)


def test_labels_of_a_span():
  assert periods.list_span_labels(570, 630) == ("六朝", "隋", "唐")
  assert periods.list_span_labels(618, 618) == ("唐",)
  with pytest.raises(ValueError, match="before the start"):
    periods.list_span_labels(630, 570)


def test_distance_counts_periods():
  assert periods.count_periods_between("先秦", "清") == 9
  assert periods.count_periods_between("唐", "唐") == 0
  with pytest.raises(ValueError, match="no period '汉朝'"):
    periods.count_periods_between("汉朝", "唐")


def named(name, kind=None) -> Relation:
  """Returns the relation of the one entity of a name."""
  (found,) = [
    entity
    for entity in repository.load_entities()
    if entity.name == name and kind in (None, entity.kind)
  ]
  return repository.make_relation(found)


def test_example_of_a_scene_flags_only_kunqu():
  scene = named("李世民")
  others = [named(n) for n in ("房玄龄", "葡萄", "昆曲", "古琴艺术")]
  assert schema.find_anachronisms(scene, others) == (
    Anachronism("昆曲", LATER),
  )


def test_example_of_a_script_flags_those_who_did_not_live_then():
  scene = named("曹操")
  cast = "王之涣 荀彧 杜牧 张衡 华佗 班固 郭嘉 夏侯惇"
  found = schema.find_anachronisms(scene, [named(n) for n in cast.split()])
  assert {(one.entity, one.reason) for one in found} == {
    ("王之涣", LATER),
    ("杜牧", LATER),
    ("张衡", EARLIER),
    ("班固", EARLIER),
  }


def test_example_of_an_order():
  names = ["番薯", "石榴", "胡萝卜", "西瓜", "菠菜"]
  groups = schema.order_by_start([named(name) for name in names])
  assert groups == (("石榴",), ("菠菜",), ("西瓜",), ("胡萝卜",), ("番薯",))
  # 1842 saw two events begin; they are tied.
  tied = [named(n, "event") for n in ("六镇起义", "南京条约签订", "甲午战争")]
  same = Relation("甲", "event", "清", 1842, 1842)
  assert schema.order_by_start([*tied, same])[1] == ("南京条约签订", "甲")


def test_gap_has_no_year_0():
  first = Relation("甲", "figure", "汉", -50, -1)
  second = Relation("乙", "figure", "汉", 1, 40)
  assert schema.compute_gap(first, second) == 1
  assert schema.compute_gap(second, first) == -1
  lasting = Relation("丙", "ingredient", "汉", -126, None)
  assert schema.compute_gap(lasting, second) == 0


def test_periods_of_records():
  expected = {
    "苏轼": ("宋",),
    "诸葛亮": ("汉", "六朝"),
    "冯道": ("五代",),
    "粟": ("先秦",),
    "应天府": ("明",),
    "豆腐": ("汉", "五代", "宋"),
    # The polity decides, not the year.
    **dict.fromkeys(("弘光", "永历", "朱由崧"), ("明",)),
    **dict.fromkeys(("天命", "天聪", "崇德", "努尔哈赤", "皇太极"), ("清",)),
    **dict.fromkeys(("陈叔宝", "祯明", "萧琮"), ("六朝",)),
    **dict.fromkeys(("忽必烈", "中统", "至正"), ("元",)),
    **dict.fromkeys(("皇泰", "杨侗"), ("隋",)),
    **dict.fromkeys(("柴宗训", "耶律阿保机", "神册"), ("五代",)),
    **dict.fromkeys(("祥兴", "完颜亶", "光定"), ("宋",)),
    # Who ruled beside a period belongs to its years, too.
    **dict.fromkeys(("李煜", "刘鋹"), ("五代", "宋")),
    **dict.fromkeys(("铁木真", "窝阔台"), ("元", "宋")),
    "宣光": ("元", "明"),
    # What happened or came about between two.
    "崖山海战": ("元", "宋"),
    "胡萝卜": ("元", "宋"),
    # Whose life is in the history of another dynasty than that of the years.
    "曹操": ("汉", "六朝"),
    "刘秉忠": ("宋", "元"),
  }
  found = {entity.name: entity.periods for entity in repository.load_entities()}
  assert {name: found[name] for name in expected} == expected


def test_eras_have_the_years_of_the_table_of_months():
  found = {
    (era.name, era.evidence[0]): (era.intervals[0].start, era.intervals[0].end)
    for era in repository.read_records(periods.ERA)
  }
  expected = {
    ("神龙", "唐"): (705, 707),
    ("神册", "辽"): (916, 922),
    ("玉衡", "成汉"): (311, 334),
    ("太延", "北魏"): (435, 440),
    ("龙飞", "后凉"): (396, 399),
    ("乾隆", "清"): (1736, 1795),
  }
  assert {key: found[key] for key in expected} == expected


def test_a_polity_without_a_row_is_refused(replace_table):
  replace_table(
    "eras",
    "name traditional aliases polity ruler start end source checked",
    "甲\t甲\t\t乙国\t\t700\t705\t史記\t史記 卷1",
  )
  with pytest.raises(ValueError, match="no polity 乙国, which eras.tsv names"):
    list(repository.read_records(periods.ERA))


def test_both_scripts_of_names():
  known = repository.index_by_name(repository.load_entities())
  pairs = {"苏轼": "蘇軾", "魏征": "魏徵", "贞观": "貞觀"}
  pairs |= {"李世民": "唐太宗", "玄烨": "康熙帝"}
  pairs |= {"鄯阐府": "善阐府"}
  for simplified, other in pairs.items():
    assert known[simplified] == known[other], simplified


def test_who_shares_a_name_is_one_group():
  records = repository.assign_groups(repository.load_entities())
  groups = {record.entity_id: record.group for record in records}
  for shared in repository.index_by_name(records).values():
    assert len({groups[record.entity_id] for record in shared}) == 1
  assert max(collections.Counter(groups.values()).values()) < 25


FIGURES = (
  "name traditional aliases birth death precision contested province source"
  " checked"
)


@pytest.mark.parametrize(
  ("row", "message"),
  [
    ("700\t650\tyear\t\t\t史記\t史記 卷1", "甲: ends in 650, before"),
    ("700\t0\tyear\t\t\t史記\t史記 卷1", "甲: year 0"),
    ("700\t900\tyear\t\t\t史記\t史記 卷1", "甲: lived 200 years"),
    ("700\t750\tsome\t\t\t史記\t史記 卷1", "甲: precision 'some'"),
    ("七百\t750\tyear\t\t\t史記\t史記 卷1", "column 'birth' is '七百'"),
    ("700\t750\tyear\t\t\t\t史記 卷1", "line 2: column 'source' is empty"),
    ("700\t750\tyear", "line 2: should have the columns"),
    # Where a row was looked up.
    ("700\t750\tyear\t\t\t史記\t", "line 2: column 'checked' is empty"),
    ("700\t750\tyear\t\t\t史記\t史記", "has '史記', should be a source and"),
    ("700\t750\tyear\t\t\t史記\t漢書 卷1", "史記, 漢書 should be in both"),
    ("700\t750\tabout\t\t\t史記\tno years", "史記 should be in both"),
    ("700\t750\tyear\t\t\t史記\t史記 卷1; no years", "should be 'about'"),
  ],
)
def test_impossible_rows_are_refused(row, message, replace_table):
  replace_table("figures", FIGURES, f"甲\t甲\t\t{row}")
  with pytest.raises(ValueError, match=message):
    repository.load_entities.__wrapped__()


def test_events_whose_years_no_source_gives_are_about(replace_table):
  replace_table(
    "events",
    "name traditional aliases start end source checked",
    "甲\t甲\t\t700\t750\t史記\t史記 卷1",
    "乙\t乙\t\t700\t750\t史記\t史記 卷1; no end year",
  )
  found = repository.read_records(periods.EVENT)
  precisions = [event.intervals[0].precision for event in found]
  assert precisions == [periods.EXACT, periods.APPROXIMATE]


def test_rows_looked_up_are_counted(replace_table, monkeypatch):
  replace_table(
    "figures",
    FIGURES,
    "甲\t甲\t\t700\t750\tyear\t\t\t史記\t史記 卷1; differs: 漢書 701-750",
    "乙\t乙\t\t700\t750\tabout\t\t\t史記; 漢書\t史記 卷1; 漢書 卷2; no years",
    "丙\t丙\t\t700\t750\tabout\t\t\t史記\t史記 卷3; no birth year",
  )
  monkeypatch.setattr(periods, "KINDS", (periods.FIGURE,))
  figures, regimes = ctm_dataset_builder.count_checked_rows()
  assert figures == {
    "table": "figures",
    "rows": 3,
    "years given": 1,
    "some given": 1,
    "none given": 1,
    "differs": 1,
  }
  assert (regimes["table"], regimes["none given"]) == ("regimes", 0)


def test_traditions_of_unknown_age_count_as_without_years(
  replace_table, monkeypatch
):
  replace_table(
    "heritage",
    "name traditional aliases start precision contested province listed source"
    " checked",
    "甲\t甲\t\t1790\tabout\t\t北京\t2010\t史記\t史記 卷1",
    "乙\t乙\t\t\t\t\t青海\t2009\t史記\t史記 卷2",
  )
  monkeypatch.setattr(periods, "KINDS", (periods.HERITAGE,))
  row = ctm_dataset_builder.count_checked_rows()[0]
  assert (row["years given"], row["some given"], row["none given"]) == (1, 0, 1)


def test_themes_rise_and_have_an_item_for_each_period():
  themes = repository.load_themes()
  assert [theme.name for theme in themes] == [
    *("水果大小", "书本厚度", "船只大小", "电子产品大小"),
    *("行星大小", "动物大小", "建筑高度", "水的温度"),
  ]
  for theme in themes:
    assert len(set(theme.items)) == len(periods.PERIODS)
    assert list(theme.measures) == sorted(set(theme.measures))


def test_measure_that_was_not_looked_up_is_refused(replace_table):
  replace_table(
    "themes",
    "theme low high position item measure unit source checked",
    "甲\t小\t大\t0\t乙\t1\t克\t史記\tchosen usual weight",
  )
  with pytest.raises(ValueError, match="chosen, 史記 should be in both"):
    repository.load_themes.__wrapped__()
