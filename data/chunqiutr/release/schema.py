"""Names of files and members in the schema of the release."""

from __future__ import annotations

from ctd_jax_datasets.chunqiutr import base_texts

MONTHS_FILE = "chunqiu_meta_sid_fixed.json"
QUERIES_FILE = "queries_all_labeledv3.jsonl"
SPLITS_FILE = "time_splits_by_month_v1.json"
# Member of a version -> the work; their order is the order of reading.
WORKS = {
  "春秋": base_texts.ANNALS,
  "春秋左氏傳": base_texts.ZUOZHUAN,
  "春秋公羊傳": base_texts.GONGYANG,
  "春秋穀梁傳": base_texts.GULIANG,
}
# The work -> its author, as a block of commentary names him, then how else.
COMPILERS = {
  "du_yu": ("杜預", "杜预"),
  "kong_yingda": ("孔穎達", "孔頴達", "孔颖达"),
  "gu_donggao": ("顧棟高", "顾栋高"),
  "wei_liaoweng": ("魏了翁",),
  "lv_zuqian": ("呂祖謙", "吕祖謙", "呂祖谦", "吕祖谦"),
}
COMPILER_MEMBERS = ("compiler", "author", "compiler_name")
COMMENT_LABEL = (
  "comment"  # what a block of commentary is called without a source
)
# Member of ours for the source of another work, in a sentence or a block of
# commentary.
SOURCE_MEMBER = "ctd_jax_source"
# Member of ours for the position of a sentence in its work.
ORDER_MEMBER = "ctd_jax_order"
# A file without it lists texts month by month: their order would be the date.
UNKNOWN_ORDER = -1
# Member of ours for the template group, which the release lacks.
GROUP_MEMBER = "ctd_jax_group"
