"""Words of a question: what is left of it without dates and question words.

「永嘉五年六月，王彌有何事？」 asks for 王彌, 「隱公元年五月，魯國有何記事？」
for nothing but a time: words that any question about a chronicle may have are
not searched for. A list of the kinds of entries that annals have, 「會盟、
征伐或朝聘」, means any of them; one of them alone is a word.
"""

import re
from collections.abc import Collection

_SIMPLIFIED = (
  "问请记录载发诸侯国动静会盟战争传经检阅内间从这当时后么么没与个总哪"
  "闻应书于对关为无见续举处说谁条开将么讲给统汇缺阙则"
)
_TRADITIONAL = (
  "問請記錄載發諸侯國動靜會盟戰爭傳經檢閱內間從這當時後麼麼沒與個總哪"
  "聞應書於對關為無見續舉處說誰條開將麼講給統彙缺闕則"
)
_FOLD = str.maketrans(_SIMPLIFIED, _TRADITIONAL)
_WHAT = "(?:什麼|甚麼|何種|哪些|哪幾|哪個|何)"
_SIZE = "(?:重大|重要|主要|相關|後續|特別|大)?的?"
_ENTRY = (
  "(?:史事|大事|諸事|往事|記事|時事|事件|事情|事跡|事|記載|記錄|記述|敘述|描述|條目"
  "|史料|資料|內容|消息|情況|文字|動靜|動向|舉動|舉|變化|章節|段落)"
)
_ANNALS = (
  "(?:今本|經文|傳文|經傳|三傳|經|傳|史官|史書|史冊|史籍|典籍|文獻|古籍)"
)
_STATES = "(?:諸侯|諸國|各國|列國|天下|朝廷|朝野)"
_KIND = "(?:會盟|征伐|朝聘|災異|戰爭|朝會|祭祀|喪葬)"
_LIST_OF_KINDS = rf"{_KIND}(?:[、，或與及和]*{_KIND})+(?:之[事舉])?"
# Ways to ask, in folded script, the longest first where one begins another.
_ASKING = re.compile(
  "|".join(
    (
      _LIST_OF_KINDS,
      "(?:是?在?)?(?:什麼|甚麼)(?:時候|年代|年份)",
      "若無，?請註明|首尾兩月皆計|[（(]?不[計含]當月[)）]?|當月除外|首尾皆計",
      "(?:究竟)?有事還是無事|有無(?:其|此)事|(?:是否|可否)闕而不書|闕而不書",
      rf"(?:可曾|是否|有無|有沒有|能否)(?:見於|收錄|載入|記錄|記載|提及|有)?(?:任何)?{_SIZE}{_ENTRY}?",
      rf"(?:任何)?{_ENTRY}?載入|見於|見載|收錄|存否|在否|何在",
      rf"(?:可|又|還|曾|都|另|尚|各|共|續)*(?:發生|出現)(?:過|了|的)*{_WHAT}?{_SIZE}{_ENTRY}?(?:呢|嗎|否)?",
      rf"(?:可|又|還|曾|都|另|尚|各|共|續)*[有書載記](?:載|錄|述)?(?:著|有|了)?{_WHAT}{_SIZE}{_ENTRY}?",
      rf"所[書載記](?:載|錄|述)?(?:的|之)?{_WHAT}?{_SIZE}{_ENTRY}?(?:者)?(?:為何)?|於策者|者為何|為何",
      "[在于於]?(?:何[處地方]|哪[裡裏兒])|何人",
      rf"{_WHAT}{_SIZE}{_ENTRY}|是什麼|什麼|甚麼|哪些|為何時|何時|何年|何月|何日|哪一?[年月日]|什麼時候|誰",
      r"請?(?:幫我|給我|為我)?(?:檢索|查詢|查考|查找|查閱|檢閱|列出|列舉|摘錄|彙集|匯集|通覽|回溯|核對|試檢|尋找"
      r"|搜索|搜尋|講述|敘述|說明|介紹|告訴我|查一下|查)",
      "請問|請|欲知|試問|關於|有關|當讀|想知道|我想知道|告訴我",
      rf"(?:所有|全部|一切|任何){_SIZE}(?:的|之)?{_ENTRY}?",
      rf"(?:之|的|相關){_ENTRY}",
      rf"{_ENTRY}(?:有哪些|為何|如何)|如何|怎樣|怎麼樣",
      "條下|各有|各是|期間|其間|當中|之中|緊接|為中心|[當本該]月|這一?年|這個?月|這一月|那年|當時|此時|年度",
    )
  )
)
# Not a word if nothing else is in the segment; else they are part of it.
_GENERIC = re.compile(
  rf"(?:{_STATES}|{_ANNALS}|{_ENTRY}|及|其|與|和|或|的|之|及相關|相關|各|共|皆|可|有|書|載|記|錄"
  "|[何誰哪無存見中內間裡在])+"
)
# Around a word, beside the other side of a date: particles.
_LEADING = re.compile(
  "^(?:[在於自從由至到迄的之有是與及和暨以對將則就起止者曰]|直到|以及|其中)+"
)
_TRAILING = re.compile("(?:[的之了嗎呢吧啊乎耶起止者是于於在]|何如|如何)+$")
_SEPARATOR = re.compile(
  r"[\s，、。；：．！？!?,;:.…—–~～\-（）()〔〕【】\[\]「」『』《》〈〉“”\"'‘’/|·・]+"
)
_LATIN = re.compile(r"[A-Za-zÀ-ɏḀ-ỿ'’\-]+")
_ENGLISH_STOP_WORDS = frozenset(
  [
    "a",
    "about",
    "after",
    "all",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "around",
    "as",
    "at",
    "be",
    "been",
    "before",
    "between",
    "by",
    "can",
    "did",
    "do",
    "does",
    "during",
    "ever",
    "event",
    "events",
    "everything",
    "find",
    "for",
    "from",
    "give",
    "happen",
    "happened",
    "happening",
    "has",
    "have",
    "how",
    "i",
    "in",
    "is",
    "it",
    "its",
    "list",
    "me",
    "month",
    "months",
    "occur",
    "occurred",
    "of",
    "on",
    "or",
    "place",
    "please",
    "record",
    "recorded",
    "records",
    "search",
    "show",
    "since",
    "something",
    "take",
    "tell",
    "that",
    "the",
    "their",
    "there",
    "these",
    "they",
    "this",
    "time",
    "to",
    "told",
    "took",
    "until",
    "up",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "year",
    "years",
    "you",
  ]
)
_MIN_PLAIN_WORD = 2
_STATE = re.compile(
  "(?<![\u4e00-\u9fff])([\u4e00-\u9fff]{1,6})國(?=\\s|$|[有可發])"
)
_SCRIPTS = re.compile(
  r"(?<=[A-Za-z])(?=[^\x00-\u02ff])|(?<=[^\x00-\u02ff])(?=[A-Za-z])"
)
_QUOTED = re.compile('「([^「」]*)」|『([^『』]*)』|“([^“”]*)”|"([^"]*)"')
_QUESTION = re.compile(
  r"什麼|甚麼|哪[些個幾年月裡]?|是否|有無|有何|何[事時年月日人]|多少|[嗎呢]|請|可曾|究竟|還是|為何|何如|如何"
  r"|發生|記載|記事|檢索|查|列出|列舉|摘錄|彙集|欲知"
)
_ALL = re.compile(
  r"所有|全部|一切|歷次|历次|各次|列出|列舉|\b(?:all|every|list)\b",
  re.IGNORECASE,
)
_ENGLISH_QUESTION = re.compile(
  r"\s*(?:what|when|who|whom|whose|which|where|why|how|did|do|does|was|were|is"
  r"|are|list|find|show|tell|give|search|in\s+(?:what|which))\b",
  re.IGNORECASE,
)


def is_question(text: str) -> bool:
  """Whether a text has a word that questions have and chronicles lack."""
  return bool(
    _QUESTION.search(text.translate(_FOLD)) or _ENGLISH_QUESTION.match(text)
  )


def asks_for_all(text: str) -> bool:
  """Whether a question asks for all of something, as a list."""
  return bool(_ALL.search(text.translate(_FOLD)))


def take_quotations(text: str) -> tuple[str, tuple[str, ...]]:
  """Returns a text with its quotations blanked, and what they hold.

  Args:
    text: a question; its quotations are searched as they are.
  """
  phrases: list[str] = []

  def blank(match: re.Match[str]) -> str:
    phrase = next(group for group in match.groups() if group is not None)
    if phrase.strip():
      phrases.append(phrase.strip())
    return " " * len(match[0])

  return _QUOTED.sub(blank, text), tuple(phrases)


def find_words(
  text: str, states: Collection[str] = frozenset()
) -> tuple[str, ...]:
  """Returns the words that a question asks for, as written, each once.

  Args:
    states: states whose reigns the calendar counts: 「魯國」 of
      「隱公元年，魯國有何事」 tells nothing more.
  """
  folded = text.translate(_FOLD)
  characters = list(text)
  for match in _STATE.finditer(folded):
    if match[1] in states:
      characters[match.start() : match.end()] = " " * len(match[0])
  for match in _ASKING.finditer(folded):
    characters[match.start() : match.end()] = " " * len(match[0])
  words: list[str] = []
  segments = _SEPARATOR.split("".join(characters))
  for segment in segments:
    words += _find_segment_words(segment)
  if len(segments) == 1 and words and segments[0] == f"{words[-1]}之":
    words[-1] = segments[0]  # 「日有食之」 belongs to nothing beside it
  return tuple(dict.fromkeys(words))


def split_words(text: str) -> tuple[str, ...]:
  """Returns a text at its marks and blanks, words of questions among them.

  Args:
    text: text of which nothing else is left: 「諸侯」 alone is a word.
  """
  return tuple(dict.fromkeys(filter(None, _SEPARATOR.split(text))))


def _find_segment_words(segment: str) -> list[str]:
  """Returns the words between two marks of punctuation or blanks."""
  words = []
  for part in _SCRIPTS.split(segment):
    if _LATIN.fullmatch(part):
      if part.lower() not in _ENGLISH_STOP_WORDS and (
        len(part) >= _MIN_PLAIN_WORD
      ):
        words.append(part)
      continue
    folded = part.translate(_FOLD)
    leading = _LEADING.match(folded)
    start = leading.end() if leading else 0
    trailing = _TRAILING.search(folded, start)
    stop = trailing.start() if trailing else len(folded)
    if start < stop and not _GENERIC.fullmatch(folded, start, stop):
      words.append(part[start:stop])
  return words
