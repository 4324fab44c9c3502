"""Invented themes and games for the tests of the Ito game."""

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.schema import ItoInstance, Relation, Theme

FRUIT = Theme(
  *("水果大小", "最小", "最大"),
  (
    *("蓝莓", "樱桃", "草莓", "李子", "橘子"),
    *("桃子", "柚子", "菠萝", "哈密瓜", "西瓜"),
  ),
  tuple(map(float, range(1, 11))),
  *("cm", "invented"),
)
BOOK = Theme(
  *("书本厚度", "最薄", "最厚"),
  (
    *("书签", "传单", "小册子", "杂志", "小说"),
    *("教材", "手册", "词典", "年鉴", "百科全书"),
  ),
  tuple(map(float, range(1, 11))),
  *("mm", "invented"),
)


def seat(entity, label):
  span = periods.get_period(label)
  return Relation(entity, "figure", label, span.start, span.end)


def instance(labels, name="ito-test"):
  seats = tuple(seat(f"某{i}", label) for i, label in enumerate(labels))
  order = sorted(labels, key=periods.LABELS.index)
  ranks = tuple(order.index(label) + 1 for label in labels)
  level = {3: "easy", 4: "medium", 5: "hard"}[len(labels)]
  return ItoInstance(name, level, seats, ranks)
