"""Published books that `twenty_books` dates: where they are, how they print.

No constant was chosen on them; of those in `SEEN` faults were read while rules
were written. Each is in a public repository; `ctd_jax` has none.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping

from tests.benchmarks import chronicle_gold as gold

# Kinds of text: families of result rows.
ANNALS, DIARY, GAZETTEER, TABLE = "annals", "diary", "gazetteer", "table"


@dataclasses.dataclass(frozen=True)
class Source:
  """Where the files of a book come from."""

  repository: str  # owner/name on GitHub
  commit: str  # its first digits
  folder: str  # below --books
  pattern: str = ""  # of files in it; {} is a juan


@dataclasses.dataclass(frozen=True)
class Book:
  """A book, what --reigns says, and how its dates are known without us."""

  source: Source
  juan: tuple[int, int]  # first and last
  reigns: str
  kind: str
  layout: str  # name of a reader of `book_gold`
  dynasties: tuple[str, ...] = ()  # as DILA calls them
  language: str = "zh"  # of DILA's table
  # Astronomical year, where the layout carries years on from it.
  first_year: int = 0
  columns: str | None = None  # what --columns says
  # Whether most dates of the book are years, so that months are not known.
  prints_years: bool = False


def _kanripo(number: str, commit: str, stem: str = "_{:03}") -> Source:
  return Source(f"kanripo/{number}", commit, number, f"{number}{stem}.txt")


def _annals(
  number: str, commit: str, juan: tuple[int, int], reigns: str, *dynasties: str
) -> Book:
  source = _kanripo(number, commit)
  return Book(source, juan, reigns, ANNALS, "annals", dynasties)


_NIUTRANS = Source(
  "NiuTrans/Classical-Modern",
  "4e746ea9",
  "NiuTrans",
  "古文原文/辽史/本纪/卷{}/text.txt",
)
_NIHONSHOKI = Source(
  "wanofuhito/nihon-shoki", "a3b52342", "nihonshoki", "{:02}rolls.txt"
)
_STOW = Source(
  "textcreationpartnership/A13043", "520845f8", "A13043", "A13043.xml"
)
_LIBRARY = Source(
  "cacology/annalsUVaLib", "9403334c", "annalsUVaLib", "timeline.csv"
)

BOOKS: Mapping[str, Book] = {
  "weishu": _annals(
    "KR2a0020", "17b6525e", (2, 12), "北魏,東魏", "北魏", "東魏"
  ),
  "jiutangshu": _annals("KR2a0026", "d9dad87d", (1, 20), "唐", "唐", "武周"),
  "mingshi": _annals("KR2a0038", "eccd6fe9", (2, 24), "明", "明/大明"),
  "hanshu": _annals("KR2a0007", "683113d4", (6, 12), "西漢", "西漢"),
  "rushuji": Book(
    _kanripo("KR2g0056", "385f0b60"),
    (1, 6),
    "宋",
    DIARY,
    "numbered_days",
    ("南宋",),
    first_year=1169,
  ),
  "nihonshoki": Book(
    _NIHONSHOKI,
    (29, 30),
    "日本",
    ANNALS,
    "japanese_annals",
    ("飛鳥時代",),
    "ja",
  ),
  "yueshilue": Book(
    _kanripo("KR2i0023", "5ce97227"),
    (1, 3),
    "vi",
    ANNALS,
    "cyclic_years",
    ("北宋", "南宋"),
    first_year=968,
    prints_years=True,
  ),
  "chaoxianshilue": Book(
    _kanripo("KR2i0022", "fe24258e"),
    (5, 12),
    "ko",
    ANNALS,
    "kings",
    ("北宋", "南宋", "遼/契丹", "金/大金", "元/大元", "明/大明"),
    prints_years=True,
  ),
  "stow": Book(_STOW, (0, 0), "CE", ANNALS, "margins"),
  "wuchuanlu": Book(
    _kanripo("KR2g0055", "a4a66d1a"),
    (1, 2),
    "宋",
    DIARY,
    "cyclic_days",
    ("南宋",),
    first_year=1177,
  ),
  "yuanshi": _annals("KR2a0036", "e2cf641b", (4, 47), "元", "蒙古", "元/大元"),
  "songshi": _annals("KR2a0032", "144d5640", (1, 47), "宋", "北宋", "南宋"),
  "xintangshu": _annals("KR2a0027", "320ec8ac", (1, 10), "唐", "唐", "武周"),
  "jinshi": _annals("KR2a0035", "9790acac", (2, 18), "金", "金/大金"),
  "liaoshi": Book(_NIUTRANS, (1, 30), "遼", ANNALS, "annals", ("遼/契丹",)),
  "annanzhilue": Book(
    _kanripo("KR2i0020", "37d76ee1"),
    (1, 19),
    "宋,元",
    GAZETTEER,
    "eras",
    ("北宋", "南宋", "蒙古", "元/大元"),
    prints_years=True,
  ),
  "sanshanzhi": Book(
    _kanripo("KR2k0012", "07886c6d"),
    (26, 32),
    "唐,宋",
    GAZETTEER,
    "lists",
    ("唐", "北宋", "南宋"),
    prints_years=True,
  ),
  "canluanlu": Book(
    _kanripo("KR2g0054", "98c3f886", "_000"),
    (0, 0),
    "宋",
    DIARY,
    "numbered_days",
    ("南宋",),
    first_year=1172,
  ),
  "xixunrilu": Book(
    _kanripo("KR2g0061", "da0b2293", "_000"),
    (0, 0),
    "清",
    DIARY,
    "cyclic_days",
    ("清/大清",),
    first_year=1683,
  ),
  "library": Book(
    _LIBRARY,
    (0, 0),
    "CE",
    TABLE,
    "rows",
    columns="text=Topic,date=Year",
    prints_years=True,
  ),
}
# Faults of these were read while rules were written.
SEEN = frozenset(
  [
    *("weishu", "jiutangshu", "mingshi", "hanshu", "xintangshu"),
    *("rushuji", "wuchuanlu", "canluanlu", "xixunrilu"),
    *("nihonshoki", "yueshilue", "chaoxianshilue", "stow"),
  ]
)

_DIGITS = "零一二三四五六七八九"


def list_files(book: Book, folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files of the juan of a book, in order.

  Raises:
    FileNotFoundError: if there is none; the message names the repository.
  """
  source = book.source
  first, last = book.juan
  found = []
  for juan in range(first, last + 1):
    number = juan if "{:" in source.pattern else _write_number(juan)
    path = folder / source.folder / source.pattern.format(number)
    if path.exists() and path not in found:
      found.append(path)
  if not found:
    raise FileNotFoundError(
      f"--books: {folder / source.folder} has no {source.pattern}; it is in "
      f"github.com/{source.repository} at {source.commit}"
    )
  return found


def _write_number(number: int) -> str:
  """Returns a number below 100 in Chinese."""
  tens, ones = divmod(number, 10)
  head = (_DIGITS[tens] if tens > 1 else "") + "十" if tens else ""
  return head + (_DIGITS[ones] if ones else "")


_NOTE = re.compile(r"[(（][^)）]*[)）]|<[^>]*>|&[^;]*;")
_SUBJECT = re.compile(r"[(（](臣\w{0,2})/?[)）]")  # humble, not a note
HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_COLLATION = re.compile(r"　.{0,20}考[證証]\Z")
_AUTHOR = re.compile(r".{0,30}[撰修註注][\u3000\s]*\Z")
_PREFACE = re.compile(r"\u3000*提要\s*\Z")
_SERIES = re.compile(r"　*欽定四[庫厙]全書")
# Two characters of a cycle in small type, beside each other: 「(庚/戌)」.
CYCLIC_NOTE = re.compile(
  r"\(([甲乙丙丁戊己已巳庚辛壬癸])/([子丑寅卯夘辰巳已己午未申酉戌戍亥])\)"
)


def read_raw_lines(path: pathlib.Path) -> list[str]:
  """Returns the printed lines of a file without what its editors add."""
  is_collation = False
  kept = []
  for raw_line in path.read_text(encoding="utf-8").split("\n"):
    if raw_line.startswith("#"):
      if raw_line.startswith("#+PROPERTY: JUAN"):
        is_collation = raw_line.rstrip().endswith("考證")
      continue
    for line in re.sub(r"<[^>]*>", "", raw_line).split("¶"):
      if _SERIES.match(line):
        is_collation = False
      elif _PREFACE.match(line):
        is_collation = True  # of the series, up to its next mark
      elif _COLLATION.match(_NOTE.sub("", line)):
        is_collation = True
      elif not is_collation and not _AUTHOR.match(_NOTE.sub("", line)):
        kept.append(line)
  return kept


def read_han(line: str) -> str:
  """Returns the Han characters of a line of main text."""
  return "".join(HAN.findall(_NOTE.sub("", _SUBJECT.sub(r"\1", line))))


def parse_numeral(text: str) -> int:
  """Returns the value of a numeral below 100, 0 if it is none."""
  return gold.parse_numeral(text)
