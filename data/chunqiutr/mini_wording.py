"""Names and sentence templates of the invented chronicle.

A slot such as `{officer}` is filled with a name that is active in the month of
the entry.
"""

from __future__ import annotations

NEIGHBOURS = "泠嶧浯湟澹岷峘沅"
TITLES = "侯伯子侯伯侯子伯"  # of the rulers of NEIGHBOURS, one each
HOUSES = ("公子", "仲", "叔", "季", "東里", "桑", "蓼", "蒯")
GIVEN_NAMES = "衍煦朔彌渠昀騫翟皋閎恂逵璞澄懋鐸晞榘綽愷瑀珩朗嵩峻雋熙勗"
PLACE_FIRST_CHARS = "桃柘榆柳杏梓檀槐葭蘆苔芷"
PLACE_LAST_CHARS = "丘陵泉濱原谷口門"
ENTRY_TEMPLATES = (
  ("visit", "{envoy}來聘"),
  ("visit", "{ruler}來，會公于{place}"),
  ("mission", "{officer}如{state}"),
  ("mission", "{officer}會{envoy}于{place}"),
  ("pact", "公及{ruler}盟于{place}"),
  ("pact", "公會{ruler}、{ruler2}于{place}"),
  ("war", "{officer}帥師侵{state}"),
  ("war", "{state}人侵我{place}"),
  ("siege", "{state}人圍{place}"),
  ("siege", "{ruler}、{envoy2}圍{place}"),
  ("works", "城{place}"),
  ("works", "新作{place}之門"),
  ("flight", "{officer}出奔{state}"),
)
# By season: what returns every year at its time.
SEASONAL_TEMPLATES = (
  (("rite", "大狩于{place}"), ("omen", "河冰未泮")),
  (("rite", "公禱雨于{place}"), ("omen", "{place}旱")),
  (("omen", "大水，壞{place}之隄"), ("omen", "蝗傷稼")),
  (("rite", "公蜡祭于{place}"), ("omen", "{place}震")),
)
RECURRENCE_WORDS = {
  "siege": ("復圍", "圍"),
  "rite": ("復", ""),
  "omen": ("又", ""),
}
NARRATIVE_TEMPLATES = {
  "visit": ("修{ruler}之好也。{officer}相禮。", "且告{state}之亂。公厚賄之。"),
  "mission": ("拜前年之會也。", "{state}人不禮焉，{officer}怒而歸。"),
  "pact": (
    "謀伐{state2}也。{officer}與焉。",
    "尋{place}之好也。{envoy}後至，故不書。",
  ),
  "war": (
    "{officer}將中軍，敗之于{place}。",
    "{officer}曰：「{state}無備，不可失也。」遂從之。",
  ),
  "siege": ("{officer}救之，圍乃解。", "{state}討其貳也。{envoy}為之謀。"),
  "works": ("{officer}董其役，三旬而畢。", "備{state}也。民不以為病。"),
  "flight": ("{state}人納之，使處{place}。", "{officer2}逐之也。國人不說。"),
  "rite": ("禮也。{officer}從。", "{officer}諫，公弗聽。"),
  "omen": ("{officer}請發廩，公許之。", "{state}來告災，{officer}往弔焉。"),
  "death": ("國人哀之。{officer}為之服。", "{envoy}來弔，禮也。"),
  "accession": ("{officer}立之也。", "國人從{officer}以立公。"),
}
DIALOGUE_TEMPLATES = {
  "visit": ("何以書？喜遠人之來也。", "何以名？賢之也。"),
  "mission": ("何以書？重君命也。", "不言所為，諱之也。"),
  "pact": ("{place}者何？{state}之邑也。", "何以不日？信也。"),
  "war": ("何以言侵？淺也。", "{state}何以不名？賤之也。"),
  "siege": ("圍不言人，此何以言人？眾也。", "{place}者何？我之北鄙也。"),
  "works": ("何以書？譏勞民也。", "{place}者何？近{state}之邑也。"),
  "flight": ("何以不言大夫？絕之也。", "孰逐之？{officer2}逐之也。"),
  "rite": ("何以書？記時也。", "非其地也，故志之。"),
  "omen": ("何以書？記災也。", "災不書大小，此何以書？甚也。"),
  "death": ("何以名？赴以名也。", "何以日？謹之也。"),
  "accession": ("何以不言日？常也。", "公者何？{reign}也。"),
}
NOTE_TEMPLATES = (
  "{officer}滄大夫也見於{reign}之世",
  "{place}滄地在{state}之南鄙",
  "{state}與滄同盟故詳其事",
  "{envoy}{state}之卿也",
  "從告而書史之常法",
)
GLOSS_TEMPLATES = (
  "注言{place}近{state}者據地志推之今考其說未盡",
  "按{cited}傳已發其例此又書之明其始終也",
  "注以{officer}為大夫者大夫得書名故知非士",
  "案{cited}亦有此事彼略而此詳",
  "史之例書人者眾辭書名者有所褒貶也",
)
