"""Source files in the formats of the editions, with invented sentences.

The real texts stay out of the repository; the parsers and the builder are
tested on these. The state 「泠」 and its people never existed.
"""

from __future__ import annotations

import hashlib
import pathlib

ANNALS_AND_ZUO = """\
# -*- mode: mandoku-view -*-
#+TITLE: 春秋左傳
<pb:KR1e0001_tls_001-1a>¶
** 1 隱公

B《傳》
<pb:KR1e0001_tls_001-2a>¶

B1泠女嫁于我，¶
生公子衍煦。<pb:KR1e0001_tls_001-3a>¶

# src: INVENTED 1.1
# dating: 8120
A1.1《隱公元年經》
<pb:KR1e0001_tls_001-5a>¶

A1.1.1元年春王正月。
<pb:KR1e0001_tls_001-6a>¶

A1.1.2三月，¶
公會泠侯于桃丘以謀嶧故。
<pb:KR1e0001_tls_001-7a>¶

A1.1.3夏，¶
嶧人侵我東鄙取柘榆二邑。秋八月，浯伯來朝且請盟。¶

B1.1《隱公元年傳》

B1.1.1元年春，¶
衍煦生而能言故名之。

B1.1.2夏，¶
嶧侵東鄙。騫翟曰：「冬十月不雨，¶
民將饑。六月，嶧師必退。」公從之。六月，¶
嶧師果去而泠人亦還。¶

「B1.1.3秋，初，杏陵之田久荒。
A1.2《隱公二年經》

A1.2.1.二年春，¶
泠侯使其弟騫來聘。
A1.2.2夏五，¶
葬泠桓侯于檀原。
A1.2.3閏月，¶
大雨雹于沅谷之南。
A1.2.4冬，¶
嶧人築城于蘆口以備我。
A1.2.5閏月，公如泠弔其夫人。

B1.2《隱公二年傳》

B1.2.1二年春，¶
騫來聘始通兩國之好也。
"""

GONGYANG = """\
回目錄　下一篇
元年春，王正月。何以無事？無事也。
三月，公會泠侯於桃丘。冬，十月，浯伯來盟。盟者何？信也。冬祭也。

二年春，泠侯使其弟騫來聘。騫者何？弟也。夏者何？時也。
上一篇　回目錄　下一篇
"""

GULIANG = """\
# -*- mode: mandoku-view -*-
<pb:KR1e0008_tls_001-1a>¶
** 1 隱公

1.1《隱公元年》
<pb:KR1e0008_tls_001-2a>¶

1.1.1元年春王正月。無事，¶
謹始也。¶
# src: INVENTED
# dating: 6200
<pb:KR1e0008_tls_001-3a>¶
1.1.2三月，¶
公會泠侯于桃丘。
會者、信
也。¶
〔1.2《隱公二年》
1.2.1.二年春，泠侯來聘。¶
"""

DU_YU = """\
# -*- mode: mandoku-view; -*-
<pb:KR1e0002_SBCK_001-1a>¶
　　　　　隱公第一(釋文佳買切/合而釋之)¶
經元年春王正月(隱公之始年周王之正月也凡人君即位/必書之朝直遙切下同)〇三月¶
公㑹泠侯于桃丘以謀嶧故(桃丘泠地在其國都東南近大/澤之濱嶧音亦濱必人切)〇夏嶧¶
<pb:KR1e0002_SBCK_001-1b>¶
人侵我東鄙取柘榆二邑(不稱師者將卑師少故也柘/榆皆魯東鄙邑)〇秋八月浯伯來¶
朝且請盟(浯/姓)¶
傳元年春衍煦生而能言故名之(言其生而有異於衆人故記/之也)¶
二年春泠侯使其弟騫來聘(諸聘皆使卿此使弟故書其名/以別之也)〇夏五葬¶
泠桓侯于檀原(無傳不書月史闕文也檀原泠國葬/地)¶
"""

KONG_YINGDA = """\
# -*- mode: mandoku-view; -*-
#+PROPERTY: JUAN 卷一
<pb:KR1e0004_WYG_001-1a>¶
欽定四庫全書¶
經元年春王正月注隱公之始年周王之正月也音義(朝直/遙反)¶
疏(正義曰此言元年者君之始年也年稱元者取其始/也衆說紛然皆以為不可改易故史官依舊文書之)¶
(而已矣其後諸侯各自紀元亦用此法以明君臣之分/也然則元者氣之始也春者四時之始也王者受命之)¶
(始也正月者政敎之始也公即位者一國之始也五者/具然後可以為君故史必備書之也注正義曰周正建)¶
(子則是今之十一/月也短)¶
三月公會泠侯于桃丘以謀嶧故注桃丘泠地○夏嶧人侵¶
我東鄙取柘榆二邑疏(正義曰將卑師少則稱人此國史/之常例也劉氏以為貶之非其旨)¶
(也/)¶
#+PROPERTY: JUAN 卷一考證
　春秋左氏傳注疏卷一考證¶
疏(正義曰此是後人校語不當入書/其文甚長足以成一條而有餘矣)¶
"""

FILES = {
  "zuozhuan_KR1e0001/KR1e0001_001.txt": ANNALS_AND_ZUO,
  "gongyangzhuan_wikisource/01_隱公.txt": GONGYANG,
  "guliangzhuan_KR1e0008/KR1e0008_001.txt": GULIANG,
  "duyu_jijie_KR1e0002/KR1e0002_001.txt": DU_YU,
  "zuozhuan_zhushu_KR1e0004/KR1e0004_001.txt": KONG_YINGDA,
}


def write_sources(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns name -> path of the files, written below `folder`."""
  paths = {}
  for name, text in FILES.items():
    paths[name] = folder / name
    paths[name].parent.mkdir(parents=True, exist_ok=True)
    paths[name].write_text(text, encoding="utf-8")
  return paths


def write_checksums(path: pathlib.Path, url: str) -> None:
  """Writes a checksums file for `FILES`, served below `url`."""
  rows = []
  for name, text in FILES.items():
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()
    served = name.rpartition("/")[0] + ".txt"
    rows.append(f"{url}/{served}\t{len(content)}\t{digest}\t{name}\n")
  path.write_text("".join(rows), encoding="utf-8")
