"""Invented juan of 資治通鑑 in the formats of both editions, for tests.

The states 泠 and 浯 never existed. Two juan, four years, 泰始元年 to 四年 of
晉; the punctuated edition prints one heading of the four.
"""

import hashlib
import pathlib

from ctd_jax_datasets.zztj import editions

_TEXT_79 = """
資治通鑑 第079卷
【晉紀一】　起旃蒙作噩，盡柔兆閹茂，凡二年。
春，三月，泠伯會浯侯于桃丘。
夏，四月，城柘陵。
夏伯遣使來，獻白馬。泠伯受之。
初，浯侯有寵于王。秋，七月，浯侯得罪，冬，十一月，出奔泠，王赦之。
五月，甲子，大水，壞桃丘之隄。
六月，泠人築臺。秋，八月，臺成，泠伯宴群臣。
臣光曰：築臺非時也，君子譏之。
閏月，泠伯疾。
是歲，泠有年。
春，正月，丁亥，王祭于柘陵。
泠大夫桑衍諫曰：「王之祭，非禮也。
「昔先君不如是。」王不聽。
冬，十月，浯侯〔卒〕(死)[3]，泠人哀之，
遂葬之。
"""
_TEXT_80 = """
資治通鑑 第080卷
【晉紀二】　起強圉大淵獻，盡著雍困敦，凡二年。
夏，四月，浯人圍榆泉，泠伯救之。
五月，榆泉震，泠人懼。
世祖武皇帝中泰始四年（戊子，公元二六八年）
1　春，正月，泠伯獵于榆泉，獲白鹿。
2　夏，五月，浯侯來朝，宴于新臺。
"""
_HEAD = """# -*- mode: mandoku-view; -*-
#+TITLE: 資治通鑑
<pb:KR2b0007_WYG_0{juan}-1a>¶
欽定四庫全書¶
　資治通鑑卷　　　宋　司馬光　撰¶
"""
_PRINT_79 = """　晉紀一(起旃蒙作噩盡柔/兆閹茂凡二年)¶
㤗始元年(是年十二月改/元三年亦見下)春三月泠伯㑹浯侯于桃丘　¶
夏四月城柘陵(柘音/蔗)　夏伯遣使來獻白馬泠伯受之　初¶
浯侯有寵于王秋七月浯侯得罪冬十一月出奔泠王赦¶
之　五月甲子大水壞桃丘之隄　六月泠人築臺秋八¶
月臺成泠伯宴羣臣臣光曰築臺非時也君子譏之　¶
閏月泠伯疾　是嵗泠有年¶
二年春正月丁亥王祭于柘陵泠大夫桑衍諫曰王之祭¶
三年之䘮則非禮也昔先君不如是王不聽　冬十月浯侯¶
死泠人哀之遂葬之¶
"""
_PRINT_80 = """　晉紀二(起強圉大淵獻/盡著雍困敦凡二年)¶
泰始三年夏四月浯人圍榆泉泠伯救之　五月榆泉震¶
泠人懼(不出三年/而亡)　四¶
年春正月泠伯獵于榆泉獲白鹿　夏五月浯侯來朝宴¶
于新臺¶
"""

# Name in a folder of sources -> text.
FILES = {
  f"{editions.PUNCTUATED_FOLDER}/卷079.txt": _TEXT_79,
  f"{editions.PUNCTUATED_FOLDER}/卷080.txt": _TEXT_80,
  f"{editions.PRINTED_FOLDER}/KR2b0007_079.txt": _HEAD.format(juan=79)
  + _PRINT_79,
  f"{editions.PRINTED_FOLDER}/KR2b0007_080.txt": _HEAD.format(juan=80)
  + _PRINT_80,
}


def write_sources(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns name -> path of the files, written below `folder`."""
  for name, text in FILES.items():
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
  return {name: folder / name for name in FILES}


def write_checksums(path: pathlib.Path) -> None:
  """Writes a checksums file for `FILES`."""
  rows = []
  for name, text in FILES.items():
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    url = f"http://invented.invalid/{name}"
    rows.append(f"{url}\t{len(content)}\t{digest}\t{name}\n")
  path.write_text("".join(rows), encoding="utf-8")
