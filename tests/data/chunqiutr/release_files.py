"""Files in the schema of the authors' release, with invented sentences.

Written without the exporter, so that reader and writer do not agree on a
mistake. The state 「滄」 and its people never existed. `changed` gives the
clean files with one thing wrong.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

from ctd_jax.chronology import dates, reigns
from ctd_jax.chronology.reigns import Timeline
from ctd_jax_datasets.chunqiutr import release_months

# Two reigns of five years: a reader is called a hundred times.
TIMELINE = Timeline(
  "release_files",
  tuple(
    dataclasses.replace(reign, years=5)
    for reign in reigns.load_timeline("mini").reigns[:2]
  ),
)
NAMES = {"train": "train", "val": "validation", "test": "test"}
Documents = dict[str, Any]


def released_split(year: int) -> str:
  """Returns the split of a regnal year, by its name in the files."""
  return {3: "val", 5: "test"}.get(year, "train")


def clean() -> Documents:
  """Returns file name -> content: objects, and a list of queries.

  Every reign's first month of a year has two events, the second told by two
  works, and a comment on each; its second month a comment on the month.
  """
  nodes, queries, sid = {}, [], 0
  gold = {}
  for key in TIMELINE.months:
    date = dates.format_key(key, TIMELINE)
    node = {"sort_key": list(key.triple), "no_event": key.month != 1}
    if key.month == 1:
      texts = (
        f"春，泠侯{sid}來聘。",
        f"城桃丘{sid}。",
        f"城桃丘{sid}，書時也。",
      )
      first, second, third = (
        {"sid": sid + number, "text": text} for number, text in enumerate(texts)
      )
      node["versions"] = [
        {"春秋": [first], "neg_sample": [block("杜預", sid + 3)]},
        {
          "春秋": [second],
          "春秋左氏傳": [third],
          "neg_sample": [block("唐 孔頴達", sid + 4, "0.95")],
        },
      ]
      gold[key], sid = [sid, sid + 1, sid + 2], sid + 5
    else:
      placeholder = {"sid": sid, "text": f"{date}。此月無事可書。"}
      node["versions"] = [{"春秋": [placeholder]}]
      gold[key], sid = [sid], sid + 1
    if key.month == 2:
      node["neg_samples"] = [block("顾栋高", sid)]
      sid += 1
    nodes[date] = node
    queries.append(
      {
        "qid": f"point-{len(queries)}",
        "query": f"{date}，滄國有何記事？",
        "type": "point",
        "sort_key": list(key.triple),
        "pos_sids": gold[key],
      }
    )
    if key.month == 12:
      year = list(
        TIMELINE.iterate_keys(TIMELINE.year_interval(key.reign, key.year))
      )
      queries.append(
        {
          "qid": f"window-{len(queries)}",
          "query": f"{date}所在之年，滄國有哪些記事？",
          "type": "window",
          "target_sort_keys": [list(month.triple) for month in year],
          "anchor_sort_key": list(key.triple),
          "pos_sids": [sid for month in year for sid in gold[month]],
        }
      )
  return {
    release_months.MONTHS_FILE: {"time_mapping": nodes},
    release_months.QUERIES_FILE: queries,
    release_months.SPLITS_FILE: split_map(),
  }


def block(compiler: str, sid: int, score: Any = 0.97) -> dict[str, Any]:
  """Returns a block of commentary with one sentence."""
  return {
    "compiler": compiler,
    "work": "某書",
    "origin_event": "城桃丘。",
    "match_strong": True,
    "match_score": score,
    "comment": f"注{sid}",
    "parsed_comment": [{"sid": sid, "text": f"桃丘{sid}滄地"}],
  }


def split_map() -> dict[str, Any]:
  """Returns the split map of `TIMELINE`: years 3 and 5 held out."""
  debug = {}
  for reign, row in enumerate(TIMELINE.reigns, start=1):
    years = range(1, row.years + 1)
    by_year = {str(year): released_split(year) for year in years}
    counts = [12 * list(by_year.values()).count(name) for name in NAMES]
    debug[str(reign)] = {
      "mode": "year",
      "years": list(years),
      "split_years": by_year,
      "month_counts": dict(zip(NAMES, counts, strict=True)),
    }
  listed = {str(key): released_split(key.year) for key in TIMELINE.months}
  return {"split_by_sort_key": listed, "debug_info": debug}


def write(folder: pathlib.Path, documents: Documents) -> dict[str, Any]:
  """Returns name -> path of the files, written into `folder`.

  A content that is bytes or text already is written as it is.
  """
  paths = {}
  for name, content in documents.items():
    if isinstance(content, list):
      content = "\n".join(
        row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
        for row in content
      )
    elif isinstance(content, dict):
      content = json.dumps(content, ensure_ascii=False)
    if isinstance(content, str):
      content = content.encode()
    paths[name] = folder / name
    paths[name].write_bytes(content)
  return paths


def changed(change: Callable[..., None]) -> Documents:
  """Returns the clean files after `change(months, queries, split_map)`.

  `change` gets the month nodes as a list.
  """
  documents = clean()
  change(
    list(documents[release_months.MONTHS_FILE]["time_mapping"].values()),
    documents[release_months.QUERIES_FILE],
    documents[release_months.SPLITS_FILE],
  )
  return documents


def counts(read_release):
  """Returns reason, up to its semicolon -> how often it was given."""
  return {
    finding["reason"].partition(";")[0]: finding["count"]
    for finding in read_release.notes.to_json()["findings"]
  }
