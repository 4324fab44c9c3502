"""Records what the commands print and write, and compares two recordings.

  python tests/tools/compare_outputs.py record before --python=old/bin/python
  python tests/tools/compare_outputs.py record after --only=dates,index
  python tests/tools/compare_outputs.py compare before after

`record` runs the commands of the `ctd_jax` that `--python` imports. It needs
CTD_JAX_SOURCES and CTD_JAX_OUTSIDE, the folders of source texts. `compare`
ignores times, versions and paths; `--numbers` ignores the wording as well and
compares figures and Han characters alone. Its status is 1 where files differ.
"""

import argparse
import difflib
import html.parser
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
DATA_SETS = (
  *("chunqiutr/mini", "chunqiutr/rebuilt", "zztj/rebuilt"),
  *("ctm/qa", "ctm/long_script", "ctm/ito", "chronocept/synthetic_1"),
)
# Western annals are invented: none are among the source texts.
WESTERN_YEAR = """A.D. {0}. On the third of March the moon was darkened.
In the month of May came a host out of the north, and burned the town.
On the 11. of November, being St. Martin's day, the abbot died.

"""
ERAS = """泰始元年春正月，大赦。
二月，賊寇涼州。
三年夏四月戊午，彗星見。
咸寧二年秋八月，大水。
太康元年三月，吳平。
寶龜二年正月，日蝕。
延曆三年十一月，遷都。
天保八年二月，大鹽平八郎亂。
光緒二十四年八月，政變。
"""
QUESTIONS = {
  "mini": (
    *("滄懷公元年五月", "滄懷公元年", "501 BCE", "501 BCE..499 BCE"),
    *("滄懷公元年至三年", "元年", "桃谷", "滄懷公年間的大水", "公"),
    *("夏，岷人侵我桃谷，公禦之。", "五月，葬衛桓公。", "2000 CE", "鯨魚"),
  ),
  "annals": (
    *("魯隱公元年五月", "隱公三年二月己巳", "襄公二十六年至二十八年"),
    *("722 BCE..719 BCE", "722 BCE", "僖公年間的日食", "葬衛桓公", "元年"),
    *("僖公", "周平王五十年", "鄭伯克段於鄢", "五月，葬衛桓公。", "盐铁"),
    *("夏五月鄭伯克段于鄢", "己巳", "春王正月", "隱公元年 鄭", "閏月"),
    *("僖公二十八年城濮", "宣公二年秋九月乙丑趙盾弒其君", "襄公四十年"),
    *("春秋末年", "昭公初年", "明年", "-0476", "公元前五百年", "十二月癸亥朔"),
  ),
  "eras": (
    *("泰始三年四月", "泰始元年", "泰始", "天保八年二月", "1837 CE", "大水"),
    *("光緒二十四年八月", "光緒戊戌", "1898", "784 CE..800 CE", "太康"),
    *("晉武帝泰始三年", "咸寧二年至太康元年", "彗星", "賊又寇涼州，殺刺史。"),
  ),
}
PAGES = {
  "mini": (
    *("/", "/?q=滄懷公元年五月&lang=en", "/?q=元年&lang=zh-Hant"),
    *("/?q=桃谷&lang=zh-Hans", "/date?q=五月，葬衛桓公。", "/month/4"),
  ),
  "annals": (
    *("/?q=魯隱公元年五月", "/?q=鄭伯克段於鄢&lang=zh-Hant", "/?q=鯨魚"),
    *("/?q=僖公年間的日食&k=5", "/record/3?lang=en", "/record/3?lang=zh-Hant"),
    *("/month/4", "/month/4?lang=zh-Hans", "/year/4", "/date"),
    *("/date?q=夏五月鄭伯克段于鄢。", "/corrections", "/jobs", "/upload"),
    *(
      "/about",
      "/api/ask?q=隱公三年二月己巳",
      "/api/records/3",
      "/api/months/4",
    ),
    *("/api/months/4", "/api/timeline?q=日食", "/api/index"),
  ),
}
# Members of JSON that differ from run to run, or with the version; code and
# values of notes, whose text is compared.
UNSTABLE_KEYS = (
  *("coded_notes", "code", "values"),
  *("versions", "asked_at", "command", "commit", "seconds", "versions"),
  *("generation", "index_sha256", "sha256", "built_at", "data_dir", "workdir"),
)
UNSTABLE_TEXT = re.compile(
  r"127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[:\d.+Z]*"
  r"|/[\w.+-]+(?:/[\w.+-]+)+|ctd_jax[ /]\d[.\d]*"
  r"|\b\d+(?:\.\d+)? ?(?:s|ms|MiB|GiB)\b(?: of its time)?"
)
# Hashes of an index say nothing: those of a data set have to be the same.
# Digits of a number are none.
HASH = re.compile(r"(?<![.\w])(?=\d*[a-f])[0-9a-f]{8,}\b")
MAX_DIFF_LINES = 12


class Recorder:
  """Runs commands of one Python and keeps what they print and write."""

  def __init__(self, python: str, out: pathlib.Path):
    self.python, self.out = python, out
    # Indexes and data sets are kept beside the recording, for --only.
    self.work = out.with_name(out.name + ".work")
    self.work.mkdir(parents=True, exist_ok=True)
    self.data = f"--data_dir={self.work / 'data'}"

  def run(self, name: str | None, *arguments: str) -> None:
    """Runs `ctd-jax ARGUMENTS` and keeps what it prints under `name`."""
    result = subprocess.run(
      [self.python, "-m", "ctd_jax.cli", *arguments],
      cwd=self.work, text=True, capture_output=True, check=False,
      env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )  # fmt: skip
    log = (*arguments, result.returncode, result.stderr[-3000:])
    with (self.work / "log.txt").open("a", encoding="utf-8") as file:
      print(*log, file=file)
    if result.returncode not in (0, 1):
      print("status", *log, file=sys.stderr)
    if name is not None:
      lines = f"status {result.returncode}\n{result.stdout}"
      if result.returncode:
        lines += "\n".join(result.stderr.splitlines()[-2:])
      self.write(name, lines)

  def write(self, name: str, text: str) -> None:
    path = self.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

  def keep(self, folder: pathlib.Path, name: str) -> None:
    """Copies tables and texts of a run; of pictures only the names."""
    for path in sorted(folder.rglob("*")):
      target = f"{name}/{path.relative_to(folder)}"
      if path.suffix in (".txt", ".tsv", ".trec", ".json", ".jsonl", ".md"):
        self.write(target, path.read_text(encoding="utf-8"))
      elif path.suffix in (".png", ".html"):
        self.write(target + ".name", "\n")

  def index(self, name: str) -> str:
    """Returns the flag of an index, which is built if need be."""
    folder = self.work / f"{name}.index"
    sources = pathlib.Path(os.environ["CTD_JAX_SOURCES"])
    eras = self.work / "eras.txt"
    eras.write_text(ERAS, encoding="utf-8")
    add, reigns = {
      "mini": ("chunqiutr/mini", []),
      "annals": (
        f"{sources / 'zuozhuan_KR1e0001'},"
        f"{sources / 'gongyangzhuan_wikisource'}",
        ["--reigns=lu"],
      ),
      "eras": (str(eras), ["--reigns=zh,ja"]),
    }[name]
    if not folder.exists():
      self.run(None, "build", "chunqiutr/mini", self.data)
      self.run(None, "index", f"--index={folder}", f"--add={add}", *reigns,
               self.data)  # fmt: skip
    return f"--index={folder}"

  def record_data(self) -> None:
    """Data sets, with the hash of their contents."""
    for name in DATA_SETS:
      self.run(f"data/{name}.txt", "build", name, "--overwrite", self.data)

  def record_train(self) -> None:
    """Train and evaluate of configs/tiny.py, and what an export ranks."""
    self.run(None, "build", "chunqiutr/mini", self.data)
    for name in ("tiny", "exported"):
      shutil.rmtree(self.work / name, ignore_errors=True)
    data = f"--config.data_dir={self.work / 'data'}"
    self.run("train/train.txt", "train", "--config=configs/tiny.py",
             "--workdir=tiny", data)  # fmt: skip
    self.run("train/evaluate.txt", "evaluate", "--workdir=tiny")
    self.run("train/systems.txt", "evaluate", "--config=configs/lexical.py",
             "--baselines_only",
             "--workdir=lexical", "--config.dataset=chunqiutr/mini",
             data)  # fmt: skip
    self.keep(self.work / "tiny" / "evaluation", "train/tiny")
    self.keep(self.work / "lexical", "train/lexical")
    metrics = self.work / "tiny" / "metrics.jsonl"
    self.write("train/metrics.jsonl", metrics.read_text(encoding="utf-8"))

  def record_dates(self) -> None:
    """Dates of the three commentaries, of Kanripo texts, of Western annals."""
    sources = pathlib.Path(os.environ["CTD_JAX_SOURCES"])
    outside = pathlib.Path(os.environ["CTD_JAX_OUTSIDE"])
    annals = self.work / "western.txt"
    years = (*range(787, 800), *range(801, 822, 2))
    annals.write_text("".join(map(WESTERN_YEAR.format, years)))
    texts = {
      "zuozhuan": (sources / "zuozhuan_KR1e0001", "lu"),
      "gongyang": (sources / "gongyangzhuan_wikisource", "lu"),
      "guliang": (sources / "guliangzhuan_KR1e0008", "lu"),
      "tongjian": (
        self.pick(sources / "zizhitongjian_KR2b0007", range(85, 91)), "晉",
      ),
      "houhanji": (outside / "KR2b0004", "zh"),
      "sanguozhi": (self.pick(outside / "KR2a0012", range(1, 6)), "東漢,曹魏"),
      "western": (annals, "CE"),
    }  # fmt: skip
    for name, (path, reigns) in texts.items():
      folder = self.work / "dated" / name
      shutil.rmtree(folder, ignore_errors=True)
      self.run(f"dates/{name}.txt", "date", f"--input={path}",
               f"--reigns={reigns}", f"--out={folder}",
               "--formats=tsv,tei")  # fmt: skip
      self.keep(folder, f"dates/{name}")

  def pick(self, folder: pathlib.Path, juan: range) -> pathlib.Path:
    """Returns a folder that has some juan of a Kanripo text."""
    target = self.work / folder.name
    target.mkdir(exist_ok=True)
    for number in juan:
      name = f"{folder.name.split('_')[-1]}_{number:03}.txt"
      shutil.copy(folder / name, target)
    return target

  def record_index(self) -> None:
    """Answers to questions of all kinds, as JSON."""
    for name, questions in QUESTIONS.items():
      index = self.index(name)
      self.run(f"index/{name}/list.txt", "index", index, "--list")
      for number, question in enumerate(questions):
        self.run(f"index/{name}/{number:02}.json", "ask", index, "--json",
                 "--why", "--", question)  # fmt: skip
      for form in ("csv", "tsv", "why"):
        self.run(f"index/{name}/00.{form}", "ask", index, f"--{form}", "--",
                 questions[0])  # fmt: skip

  def record_pages(self) -> None:
    """Pages of the web application as text, and its JSON."""
    for name, paths in PAGES.items():
      with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
      with subprocess.Popen(
        [self.python, "-m", "ctd_jax.cli", "serve", self.index(name),
         f"--port={port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
      ) as server:  # fmt: skip
        try:
          read_address(port, "/about", patience=120)
          for number, path in enumerate(paths):
            text = read_address(port, path)
            self.write(f"pages/{name}/{number:02}.txt", f"{path}\n{text}")
        finally:
          server.terminate()

  def record_ctm(self) -> None:
    """Tables of the questions and the game of dynasties."""
    for name in ("ctm/qa", "ctm/ito"):
      self.run(None, "build", name, self.data)
    commands = {
      "eras": ("qa", "--system=eras", self.data),
      "oracle": ("qa", "--system=oracle", self.data),
      "joint": ("ito", "--agent=joint", "--repeats=2", self.data),
      "knowing": ("ito", "--agent=knowing", self.data),
    }
    for name, arguments in commands.items():
      folder = self.work / "ctm" / name
      shutil.rmtree(folder, ignore_errors=True)
      self.run(f"ctm/{name}.txt", "ctm", *arguments, f"--workdir={folder}")
      for file in ("report.md", "results.json"):
        if (folder / file).exists():
          self.write(f"ctm/{name}/{file}", (folder / file).read_text("utf-8"))
    self.run("ctm/judge.txt", "ctm", "judge",
             f"--answers={GOLDEN / 'ctm_judge_answers.tsv'}",
             f"--data={GOLDEN / 'ctm_judge_questions.jsonl'}")  # fmt: skip

  def record_validity(self) -> None:
    """Tables of Chronocept: fitted curves and baselines without an encoder."""
    self.run(None, "build", "chronocept/synthetic_1", self.data)
    folder = self.work / "fits"
    self.run("validity/fits.txt", "fit-validity", f"--out={folder}",
             f"--points={GOLDEN / 'chronocept_table10.csv'}")  # fmt: skip
    self.keep(folder, "validity/fits")
    models = ("mean", "median", "tfidf")
    for name in models:
      folder = self.work / "validity" / name
      shutil.rmtree(folder, ignore_errors=True)
      self.run(f"validity/{name}.txt", "train", f"--workdir={folder}",
               f"--config=configs/chronocept.py:{name}",
               f"--config.data_dir={self.work / 'data'}")  # fmt: skip
      for path in folder.rglob("results.json"):
        self.write(f"validity/{name}.json", path.read_text("utf-8"))
    workdirs = ",".join(str(self.work / "validity" / name) for name in models)
    self.run("validity/compared.txt", "compare-validity",
             f"--workdirs={workdirs}")  # fmt: skip


class PageText(html.parser.HTMLParser):
  """Collects what a reader sees of a page, without scripts and styles."""

  def __init__(self):
    super().__init__()
    self.lines, self.hidden = [], 0

  def handle_starttag(self, tag, attrs):
    self.hidden += tag in ("script", "style")

  def handle_endtag(self, tag):
    self.hidden -= tag in ("script", "style")

  def handle_data(self, data):
    if not self.hidden and data.strip():
      self.lines.append(" ".join(data.split()))


def read_address(port: int, path: str, patience: float = 0) -> str:
  """Returns a page as text; waits for the server up to `patience` seconds."""
  address = f"http://127.0.0.1:{port}" + urllib.parse.quote(path, safe="/?&=")
  end = time.monotonic() + patience
  while True:
    try:
      with urllib.request.urlopen(address, timeout=120) as response:
        body, kind = response.read().decode(), response.headers["Content-Type"]
      break
    except urllib.error.HTTPError as error:
      body, kind = error.read().decode(), error.headers["Content-Type"]
      break
    except OSError:
      if time.monotonic() > end:
        raise
      time.sleep(1)
  if "json" in (kind or ""):
    return json.dumps(json.loads(body), ensure_ascii=False, indent=1)
  page = PageText()
  page.feed(body)
  return "\n".join(page.lines)


def drop_unstable(value):
  """Returns JSON without the members that differ from run to run."""
  if isinstance(value, dict):
    return {
      key: drop_unstable(member)
      for key, member in value.items()
      if key not in UNSTABLE_KEYS
    }
  return [*map(drop_unstable, value)] if isinstance(value, list) else value


def read_lines(path: pathlib.Path, numbers: bool) -> list[str]:
  """Returns the lines of a recorded file, normalised."""
  text = path.read_text(encoding="utf-8")
  head, brace, body = text.partition("{")
  try:
    # Behind the status, or the path of a page.
    value = json.loads(text if text[:1] == "[" else brace + body)
    text = head + json.dumps(
      drop_unstable(value), ensure_ascii=False, indent=1, sort_keys=True
    )
  except ValueError:
    pass  # no JSON
  text = UNSTABLE_TEXT.sub("<>", text)
  if "data" not in path.parts[-3:-1]:
    text = HASH.sub("<>", text)
  lines = text.splitlines()
  if numbers:
    parts = (re.findall(r"[\d.]*\d|[一-鿿]+", line) for line in lines)
    lines = [" ".join(part) for part in parts if part]
  return lines


def compare(before: pathlib.Path, after: pathlib.Path, numbers: bool) -> int:
  """Prints what differs between two recordings; returns how many files."""
  names = {
    str(path.relative_to(folder))
    for folder in (before, after)
    for path in folder.rglob("*")
    if path.is_file()
  }
  recorded = {path.name for path in after.iterdir()}
  num_different = 0
  for name in sorted(names):
    if name.split("/")[0] not in recorded:
      continue
    paths = before / name, after / name
    if not all(path.exists() for path in paths):
      print(f"{name}: only in {before if paths[0].exists() else after}")
      num_different += 1
      continue
    if paths[0].read_bytes() == paths[1].read_bytes():
      continue
    lines = [read_lines(path, numbers) for path in paths]
    if lines[0] == lines[1]:
      continue
    num_different += 1
    print(f"{name}: differs")
    changes = [
      line[:160]
      for line in difflib.unified_diff(*lines, n=0, lineterm="")
      if not line.startswith(("---", "+++", "@@"))
    ]
    print(*(f"    {line}" for line in changes[:MAX_DIFF_LINES]), sep="\n")
    if len(changes) > MAX_DIFF_LINES:
      print(f"    ... {len(changes) - MAX_DIFF_LINES} lines more")
  print(f"{num_different} of {len(names)} files differ")
  return num_different


def main() -> None:
  parts = [name[7:] for name in vars(Recorder) if name.startswith("record_")]
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  verbs = parser.add_subparsers(dest="verb", required=True)
  record = verbs.add_parser("record", help="run the commands")
  record.add_argument("out", type=pathlib.Path)
  record.add_argument("--only", default=",".join(parts), help="%(default)s")
  record.add_argument("--python", default=sys.executable)
  against = verbs.add_parser("compare", help="show what differs")
  against.add_argument("before", type=pathlib.Path)
  against.add_argument("after", type=pathlib.Path)
  against.add_argument("--numbers", action="store_true")
  options = parser.parse_args()
  if options.verb == "compare":
    sys.exit(bool(compare(options.before, options.after, options.numbers)))
  recorder = Recorder(options.python, options.out.absolute())
  for part in options.only.split(","):
    start = time.monotonic()
    getattr(recorder, f"record_{part}")()
    print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
  main()
