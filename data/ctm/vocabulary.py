"""Vocabulary of CTM: kinds of entities, tasks, splits, precision of years."""

from __future__ import annotations

# Kinds of entities; the fact tables are read in this order.
FIGURE, RULER, ERA, PLACE = "figure", "ruler", "era", "place"
EVENT, INGREDIENT, HERITAGE = "event", "ingredient", "heritage"
KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT, HERITAGE)

# Task codes and the type names of the paper. EDD has one name for each kind.
EDD, PJ, TOU, RR, SEC, EEU, TIC, TES, LSEC = TASKS = (
  "EDD",
  "PJ",
  "TOU",
  "RR",
  "SEC",
  "EEU",
  "TIC",
  "TES",
  "LSEC",
)
TYPE_NAMES = {
  PJ: "合理性判断",
  TOU: "时间顺序理解",
  RR: "关系判断",
  SEC: "穿帮镜头指正",
  EEU: "实体名称变迁",
  TIC: "时间差计算",
  TES: "选出对应时空实体",
  LSEC: "剧本穿帮问题指正_长上下文",
}
EDD_TYPE_NAMES = {
  FIGURE: "根据人物确定所处朝代",
  RULER: "根据君主确定所处朝代",
  ERA: "根据年号确定所处朝代",
  PLACE: "根据地名确定使用朝代",
  EVENT: "根据事件确定发生朝代",
  INGREDIENT: "根据食材确定传入朝代",
  HERITAGE: "根据非遗确定起源朝代",
}
SPLITS = ("train", "validation", "test")

# Precision of a year, and the error in years that it allows.
EXACT, APPROXIMATE = "year", "about"
TOLERANCE = {EXACT: 0, APPROXIMATE: 10}
# The year of a relation that a question is about.
START, END = "start", "end"
# Reasons of an anachronism: it began after the scene, or ended before it.
LATER, EARLIER = "later", "earlier"
