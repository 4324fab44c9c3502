"""One spelling and one script of a text, for search and comparison.

Dates, parallels and citations are not folded by it.
"""

import functools

import opencc

from ctd_jax.chronology import numerals

# Glyphs that neither the conversion to one script nor `numerals` folds: 塩鐡 is
# 鹽鐵, 䘮 is 喪. The first of a group is the usual one.
_GROUPS = (
  "鐵鐡鉄 鹽塩 賓賔 嘗甞 寶寳 緣縁 總揔 凡凢 處処 發𤼵𤼲 關闗関 強彊 增増 "
  "收収 敕敇勅 達逹 喪䘮 齊斉 晚晩 每毎 舍舎 肅粛 燕鷰 辭辤辝 冰氷 兌兊 "
  "贊讃 幼㓜 起𧺫 策䇿筞 輩軰 奈柰 養飬 定㝎 黎𥠖 得淂 協恊 考攷 曆暦 德惪 "
  "概槩 殲殱 羌羗 葬𦵏 皋臯 廄廐廏 回囬 被𬒳 弊獘 劫刼刧 弘𢎞 玄𤣥 郎郞 "
  "淨浄 劍劒劎 鬥鬪鬬鬭 雁鴈 駝駞 鵝鵞 參㕘 卯夘 久乆 冤寃 寇㓂 榷𣙜 桑桒 "
  "出岀 窗窓 明朙眀 番畨 虛虗 坐㘴 爾尓 凶㐫 鼓鼔皷 稱穪 柳桺栁 京亰 沿㳂㳂 "
  "點㸃 災烖 疆壃 奔犇 逃迯 歸㱕 貌貎 柏栢 獵猟 侯矦 稿稾 險嶮 壞壊 滅㓕 "
  "擊撃 穀糓 鎖鏁 裴裵 仙僊 效効 氈氊 遁遯 遞逓 閒間 置寘 鼇鰲 繈襁 腸膓 "
  "掩揜 悅恱 研硏 姬姫 填塡 値值 舉擧 齡齢 齒歯 龍竜 龜亀 默黙 涉渉 緖緒 "
  "練錬 廉亷 廢廃 懷懐 嚴厳 巖巌 戲戯戱 最㝡 劵券 匃丐 匆怱 卄廿 厰廠 叟叜 "
  "叢樷藂 告吿 員貟 喻喩 國囻圀 圍囲 坤堃 垂埀 堤隄 夢夣 姊姉 娛娯 媿愧 "
  "學斈 宂冗 寑寢 實寔実 寫冩 專専 對対 崑崐 崙崘 帶帯 庶庻 彈弾 徧遍 愬訴 "
  "慚慙 憑凴 據拠 插揷 揚敭 攝摂 旁傍 旨㫖 棃梨 棊碁 榮栄 樂楽 檢検 歡歓 "
  "歸帰 毗毘 氣気 法灋 淚涙 淫婬 滿満 澤沢 濟済 熙熈煕 燒焼 牋箋 犁犂 獸獣 "
  "畝畞 睹覩 穗穂 稚稺 競竸 算筭 節莭 簡𥳑 糾糺 紙帋 絲糸 綿緜 縣県 繫繋 "
  "繼継 續続 羈羇 耕畊 聰聡 肯肎 胸胷 脅脇 臘臈 芻蒭 藏蔵 藥薬 蛇虵 覽覧 "
  "觀観 訛譌 譯訳 變変 讀読 賣売 躬躳 軟輭 輕軽 轉転 遲遅 醉酔 釋釈 鑄鋳 "
  "陷䧟陥 隸隷 雜雑 靈霊 鞍鞌 驅駈 驗験 驛駅 髮髪 寧寜 鬱鬰欎 "
)

_fold_variants = numerals.make_replacer(
  {variant: group[0] for group in _GROUPS.split() for variant in group[1:]}
)


class _SimplifiedCharacters(dict):
  """Code point -> simplified character, filled as characters come."""

  def __missing__(self, code: int) -> str:
    character = chr(code)
    simplified = _converter().convert(character)
    # One for one: a character that becomes several stays.
    self[code] = simplified if len(simplified) == 1 else character
    return self[code]


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("t2s")


_TO_SIMPLIFIED = _SimplifiedCharacters()


def fold_text(text: str) -> str:
  """Returns a text in one spelling and one script, of the same length."""
  usual = _fold_variants(text)
  return numerals.fold_script(usual).translate(_TO_SIMPLIFIED)
