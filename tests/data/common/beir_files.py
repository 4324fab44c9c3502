"""The least of a BEIR folder: an invented chronicle dated by eras."""

import json
import pathlib

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax_datasets import load

# A chronicle of somebody else, dated by eras: two of three and two years.
REIGNS = """\
name\tstate\taccession\tmonth\tyears\taliases\tsource
泰康\t梁明帝\t300\t1\t3\t太康\tinvented
永平\t梁明帝\t303\t1\t2\t\tinvented
"""
TEXTS = {
  "d1": ("1-1-2", "二月，河水溢，壞民舍。"),
  "d2": ("1-2-5", "五月，以陳衡為太守。"),
  "d3": ("1-2-5", "地震，屋瓦皆墮。"),
  "d4": ("1-3-11", "泰康三年十一月，大雪，牛馬凍死。"),
  "d5": ("2-1-7", "永平元年七月，霍氏叛於北邊。"),
  "d6": ("2-2-1", "春，正月，赦天下。"),
}
ASKED = {
  "q1": ("1-2-5", "1-2-5", "梁明帝泰康二年五月有何記事？"),
  "q2": ("2-1-7", "2-1-7", "永平元年七月，何人叛？"),
  "q3": ("1-3-1", "1-3-12", "泰康三年全年，有何大事？"),
}


def lines(rows) -> str:
  """Returns one line of JSON a row."""
  return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def write(folder: pathlib.Path) -> pathlib.Path:
  """Writes the least that a BEIR folder needs to be read."""
  (folder / "qrels").mkdir(parents=True)
  (folder / "reigns.tsv").write_text(REIGNS)
  corpus = [
    {"_id": name, "text": text, "metadata": {"start": key}}
    for name, (key, text) in TEXTS.items()
  ]
  (folder / "corpus.jsonl").write_text(lines(corpus))
  queries = [
    {"_id": name, "text": text, "metadata": {"start": start, "end": end}}
    for name, (start, end, text) in ASKED.items()
  ]
  (folder / "queries.jsonl").write_text(lines(queries))
  (folder / "qrels" / "test.tsv").write_text(
    "query-id\tcorpus-id\tscore\n"
    "q1\td3\t1\nq1\td2\t2\nq1\td1\t0\nq2\td5\t1\nq3\td4\t1\n"
  )
  return folder


def read(folder: pathlib.Path) -> Benchmark:
  """Returns the data set of a folder."""
  return load.load_benchmark(f"beir:{folder}")
