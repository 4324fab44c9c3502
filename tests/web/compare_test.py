"""Works side by side: the differences, the span, and what is refused."""

import re

import pytest

from ctd_jax.web import compare_page, month_page


def show(texts):
  """Returns texts with what differs in brackets."""
  marks = compare_page.mark_differences(texts)
  shown = []
  for text, differs in zip(texts, marks, strict=True):
    parts = compare_page._split(text, differs)
    shown.append("".join(f"[{it}]" if bad else it for it, bad in parts))
  return shown


@pytest.mark.parametrize(
  ("texts", "expected"),
  [
    (["公會齊侯。", "公会，齊侯"], ["公會齊侯。", "公会，齊侯"]),
    (["公會齊侯", "公會宋侯"], ["公會[齊]侯", "公會[宋]侯"]),
    (["日有食之", ""], ["日有食之", ""]),
    (["大水", "大水", "大雪"], ["大[水]", "大水", "大[雪]"]),
    # One character in common is chance.
    (["公子益師卒", "夏之日雨"], ["[公子益師卒]", "[夏之日雨]"]),
  ],
)
def test_characters_that_others_lack_are_marked(texts, expected):
  assert show(texts) == expected


def test_words_that_stand_further_on_are_not_lacking():
  texts = ["楚師敗績。", "晉侯夢與楚子搏。" * 60 + "楚師敗績。"]
  cells = [
    [month_page.MonthRecord(row, "", text, "event", 1, 0)]
    for row, text in enumerate(texts)
  ]
  (short,), (long,) = compare_page.compare_row(cells)
  assert not any(differs for _, differs in short.parts)
  assert long.num_cut == len(texts[1]) - 400


def test_works_stand_side_by_side_over_a_span(client):
  parameters = {"work": ["annals", "notes"], "from": "魯隱公元年"}
  page = client.get("/compare", params=parameters).text
  titles = re.findall(r'<th scope="col" lang="lzh">([^<]+)</th>', page)
  assert titles[:2] == ["Annals", "Notes"]
  months = re.findall(r'<h2 id="m(\d+)">', page)
  assert len(months) > 1
  assert all(0 <= int(month) < 13 for month in months)
  assert "following months" not in page
  second = client.get("/compare", params={"from": "魯隱公二年四月"}).text
  assert re.search("入向.*使來", second, re.DOTALL)
  longer = client.get("/compare", params=parameters | {"to": "魯隱公九年"}).text
  (rest,) = re.findall(r'rel="next" href="([^"]+)"', longer)
  assert client.get(rest.replace("&amp;", "&")).status_code == 200
  saved = client.get("/save/compare").text
  assert "<script" not in saved


@pytest.mark.parametrize(
  ("query", "words"),
  [
    ("work=annal", "annals"),
    ("work=annals&work=notes&work=placeholder&work=x", "placeholder"),
    ("from=@99999", "@0 … @"),
    ("from=元年", "魯隱公元年"),
  ],
)
def test_works_and_times_that_are_not_there_are_refused(client, query, words):
  response = client.get(f"/compare?{query}")
  assert response.status_code == 422
  assert words in response.text or "work" in response.text
