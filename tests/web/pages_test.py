"""Pages: what they say, where they lead, and what they say of bad requests."""

import asyncio
import dataclasses
import html
import pathlib
import re
import sqlite3
import time
from concurrent import futures
from unittest import mock

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import western
from ctd_jax.index import charts, question_reading, ranking
from ctd_jax.index.answers import Span
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.utils import deadlines
from ctd_jax.web import (
  queries,
  record_page,
  rendering,
  requests,
  search_page,
  served_index,
)
from tests.index import small_index
from tests.web.conftest import open_client, wait_for


def read(client, path, status=200, **parameters):
  response = client.get(path, params=parameters or None)
  assert response.status_code == status, response.text
  return response.text


def find_rows(page):
  """Returns the rows of the results of a page, by the ids that they have."""
  links = re.findall(
    r'class="text" lang="lzh"><a href="/record/(annals|notes)/\w+-(\d+)', page
  )
  start = {"annals": 1, "notes": 1 + small_index.NUM_FIRST_WORK}
  return [str(start[work] + int(number)) for work, number in links]


def test_question_of_a_time_lists_its_records_and_its_months(client):
  page = read(client, "/", q="魯隱公元年")
  assert "Understood as" in page
  assert "Matches: 4 of 9 records in 2 works." in page
  assert find_rows(page) == ["1", "2", "3", "4"]
  assert "722 BCE" in page
  assert 'value="魯隱公元年正月"' in page  # can be changed
  assert 'value="魯隱公元年十二月"' in page


def test_words_are_marked_and_can_be_changed(client):
  page = read(client, "/", q="鄭人")
  assert "<mark>鄭人</mark>克段" in page
  changed = read(client, "/", q="鄭人", words="莒人")
  assert "<mark>莒人</mark>入向" in changed
  assert "<mark>鄭人</mark>" not in changed


def test_time_work_kind_and_confidence_narrow(client):
  def rows(**parameters):
    return sorted(find_rows(read(client, "/", **parameters)))

  assert rows(q="鄭人") == ["3", "7"]
  assert rows(q="鄭人", to="魯隱公元年") == ["3"]
  assert rows(**{"q": "鄭人", "from": "721 BCE"}) == ["7"]
  assert rows(**{"from": "@4", "to": "@6"}) == ["3", "4"]
  page = read(client, "/", **{"from": "@4", "to": "@6"})
  assert ">魯隱公元年五月 – 魯隱公元年七月</a> <span" in page
  assert rows(q="魯隱公二年", work="notes") == ["7", "8"]
  assert rows(q="魯隱公二年", kind="neg_comment") == ["8"]
  assert rows(q="魯隱公二年", p="0.95") == ["5"]


def test_ambiguous_date_offers_its_readings(client):
  page = read(client, "/", q="元年")
  links = re.findall(r'href="(/\?q=[^"]+)">魯[^<]+元年', page)
  assert len(links) > 5
  narrowed = read(client, links[0].replace("&amp;", "&"))
  assert "may mean" not in narrowed


def test_months_are_named_as_the_question_names_them(served, serve_calendar):
  calendar = calendar_lib.load_calendar("zh")
  question = question_reading.QuestionReader(calendar).read("永嘉五年六月")
  (span,) = question.intervals
  record = served.index.record(3)
  date = dataclasses.replace(
    record.date,
    month={"ordinal": span.first, "name": "漢趙昭武帝嘉平元年六月"},
    credible_90=(Span(first=span.first, last=span.last + 1, name="x"),),
  )
  record = dataclasses.replace(record, date=date)
  answer = dataclasses.replace(served.index.ask("鄭人"), results=(record,))
  renamed = search_page.rename_months(
    serve_calendar(calendar), answer, question
  )
  date = renamed.results[0].date
  assert date.month["name"] == "晉懷帝永嘉五年六月"
  assert date.credible_90[0].name == "晉懷帝永嘉五年六月 – 晉懷帝永嘉五年七月"


def test_timeline_leads_to_narrower_times_without_a_script(client):
  page = read(client, "/", q="鄭人")
  bars = re.findall(r'<a href="(/\?q=[^"]+from=%40\d+[^"]*)" tabindex', page)
  assert bars
  narrowed = read(client, bars[0].replace("&amp;", "&"))
  assert "later" in narrowed


def test_labels_of_a_chart_do_not_touch_on_a_narrow_screen():
  for label, number in (("722 BCE", 4), ("漢趙昭武帝嘉平元年十二月", 1)):
    bars = [charts.ChartBar("", label, 1.0)] * 40
    svg = str(charts.draw_bars(bars, "x", total_width=charts.NARROW))
    assert svg.count(f">{label}</text>") == number


def test_record_has_text_date_reasons_neighbours_and_citation(client, served):
  page = read(client, "/record/notes/notes-0")
  assert "鄭人伐某" in page
  assert re.search('class="reasons">\\s*<li>[A-Z]', page)
  assert "nine chances in ten" in page
  assert '<a href="/record/notes/notes-1"' in page
  assert "鄭人伐某" in page.split("Before and after")[1]
  assert served.index.versions.index_sha256 in page


def test_printed_dates_are_marked(client):
  page = read(client, "/record/annals/annals-1")
  assert "<mark>三月</mark>，公及" in page
  assert "The date printed in the text" in page
  page = read(client, "/record/notes/notes-1")
  assert ("<mark>" in page) == ("The date printed in" in page) is False


def test_printed_dates_of_western_annals_are_marked(served, serve_calendar):
  other = serve_calendar(western.make_western_calendar(700, 1160))
  record = dataclasses.replace(
    served.index.record(2), text="In May 793 the raid came.", reasons=()
  )
  spans = record_page.find_cues(other, record)
  assert any("793" in record.text[start:end] for start, end in spans)


def test_texts_are_escaped_and_control_characters_shown(client):
  page = read(client, "/record/notes/notes-1")
  assert "<b>" not in page
  assert "&lt;b&gt;&amp;" in page
  assert "\x1b" not in page


def test_permalink_names_the_index_and_another_is_told(client, served):
  sha256 = served.index.versions.index_sha256
  page = read(client, "/", q="鄭人")
  assert f"index={sha256}" in page
  assert "another version" not in read(client, "/", q="鄭人", index=sha256)
  other = read(client, "/", q="鄭人", index="0123456789abcdef")
  assert "another version of the index (0123456789ab)" in other


def test_saved_page_is_whole_in_itself(client):
  response = client.get("/save/", params={"q": "鄭人"})
  assert "attachment" in response.headers["content-disposition"]
  page = response.text
  assert "<style>" in page
  assert "<script" not in page
  assert "<link" not in page
  assert 'href="/' not in page
  assert 'href="http://localhost/record/annals/annals-2"' in page


@pytest.mark.parametrize(
  ("path", "status", "message"),
  [
    ("/nothing", 404, "Page not found"),
    ("/record/999", 404, "There is no record 999; the index has 10"),
    ("/record/99999999999999999999", 404, "There is no record"),
    ("/record/x", 404, "There is no record x in this index"),
    ("/?q=寶元元年", 422, "寶元"),
    ("/?q=鄭&from=999 CE", 422, "999"),
    ("/?q=700 CE", 422, '<a href="/?q=700+BCE">700 BCE</a>'),
    ("/?q=鄭&from=元年", 422, "魯隱公元年"),
    ("/?q=鄭&from=@99999", 422, "@0 … @"),
    ("/?q=鄭&work=annal", 422, "annals"),
    ("/?q=鄭&kind=x", 422, "kind"),
    ("/?q=鄭&page=0", 422, "page"),
    ("/?q=鄭&page=²", 422, "page"),
    ("/?q=鄭&p=nan", 422, "0 … 1"),
    ("/?q=鄭&intent=when", 422, "intent"),
    ("/?q=鄭&index=../../etc", 422, "sha256"),
    ("/?q=" + "x" * 20_001, 422, "20,001 characters"),
    ("/?q=%00", 422, "control character"),
    ("/static/../settings.py", 404, ""),
    ("/static/vendor/plotly.py", 404, ""),
  ],
)
def test_bad_requests_are_answered_with_what_would_be_right(
  client, path, status, message
):
  page = read(client, path, status)
  assert message in page
  assert f"HTTP {status}" in page or path.startswith("/static")
  assert f"<title>{status}" not in page  # but words


def test_failure_is_logged_under_the_number_that_the_page_has(
  client, monkeypatch, caplog
):
  def fail(*_):
    raise RuntimeError("a secret of this machine")

  monkeypatch.setattr("ctd_jax.web.search_page.search", fail)
  page = read(client, "/", 500, q="鄭人")
  number = re.search(r"Number in the log: (\w+)", page)[1]
  assert "secret" not in page
  assert number in caplog.text
  assert "a secret of this machine" in caplog.text


def test_damage_is_logged_in_a_line_with_the_command_that_mends_it(
  client, monkeypatch, caplog
):
  def fail(*_):
    raise DamagedIndexError(pathlib.Path("/srv/index/works/a.npy"), "damaged")

  monkeypatch.setattr("ctd_jax.web.search_page.search", fail)
  page = read(client, "/", 500, q="鄭人")
  assert "damaged" in page
  assert "/srv" not in page
  assert "a.npy: damaged" in caplog.text
  assert "--repair" in caplog.text
  assert "Traceback" not in caplog.text


def test_flood_of_slow_questions_ends_and_leaves_pages_alone(
  index_folder, monkeypatch
):
  begun = []

  def search(*_):
    begun.append(1)
    while True:
      time.sleep(0.01)
      deadlines.check()

  with open_client(index_folder, seconds=1) as client:
    threads = client.app.state.pools.questions
    with monkeypatch.context() as patch:
      patch.setattr(search_page, "search", search)
      with futures.ThreadPoolExecutor(threads.size + 4) as pool:
        asked = [
          pool.submit(read, client, "/", 503, q=f"鄭人 {number}")
          for number in range(threads.size + 4)
        ]
        wait_for(lambda: len(begun) >= threads.size)
        read(client, "/month/4")
        read(client, "/record/notes/notes-0")
      assert all("longer than 1 seconds" in it.result() for it in asked)
      wait_for(lambda: not threads.num_pending)  # all have ended
    assert "克段" in read(client, "/", q="鄭人")


def test_question_too_many_is_refused_at_once(index_folder):
  with open_client(index_folder) as client:
    client.app.state.pools.questions.num_pending = 1_000
    for path in ("/", "/api/ask", "/save/"):
      refused = client.get(path, params={"q": "鄭人"})
      assert refused.status_code == 503
      assert int(refused.headers["retry-after"]) > 0
    for path in ("/", "/month/4", "/api/index"):
      assert client.get(path).status_code == 200


def test_long_work_has_threads_of_its_own(index_folder):
  with open_client(index_folder) as client:
    pools = client.app.state.pools
    pools.long_work.num_pending = 1_000
    why = {"q": "鄭人", "why": True}
    assert client.get("/api/ask", params=why).status_code == 503
    assert client.post("/api/ask", json=why).status_code == 503
    long = {"q": "元年" * 4_000}
    assert client.post("/api/ask", json=long).status_code == 503
    # In chunks it says nothing of its length.
    chunks = iter([b"q=" + b"1" * 9_000])
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/date", content=chunks, headers=form).status_code == 503
    assert client.get("/?q=鄭人").status_code == 200


def test_long_work_gives_way_to_pages():
  pages = requests.AnswerThreads("page", 1)
  long_work = requests.AnswerThreads("long", 1, preferred=(pages,))

  def work():
    begun = time.monotonic()
    for _ in range(20):
      time.sleep(0.002)
      deadlines.check()
    return time.monotonic() - begun

  # The shortest of some, as other processes may be busy.
  alone = min(asyncio.run(long_work.run(work, seconds=20)) for _ in range(5))
  pages.num_pending = 1
  beside = asyncio.run(long_work.run(work, seconds=20))
  assert 2 * alone < beside < 20
  for threads in (pages, long_work):
    threads.close()


def test_pages_answer_while_a_build_ends(folder, writer):
  first = read(writer, "/about")
  manifest = folder / "manifest.json"
  content = manifest.read_text()
  manifest.unlink()
  assert read(writer, "/about") == first  # while it is written
  manifest.write_text(content)
  read(writer, "/record/notes/notes-0")
  # As a build that has dated all anew: other rows, then the manifest.
  content = content.replace('"generation": 1', '"generation": 2')
  content = re.sub(
    r'(?<="first_row": )\d+', lambda match: str(int(match[0]) + 100), content
  )
  with sqlite3.connect(folder / "index.sqlite") as connection:
    connection.execute("UPDATE records SET row = row + 100")
    connection.execute("UPDATE works SET first_row = first_row + 100")
    connection.executemany(
      "UPDATE properties SET value = ? WHERE name = ?",
      [("2", "generation"), (content, "manifest")],
    )
  # The build may be stopped before it writes the manifest.
  assert "build 2 of the index" in read(writer, "/record/notes/notes-0")
  manifest.write_text(content)
  assert writer.get("/api/records/107").status_code == 200
  assert "There is no record 7" in read(writer, "/record/7", 404)


def search_page_of(served, text):
  query = queries.parse_query({"q": text}, 1000)
  return search_page.search(served, queries.resolve_query(served, query))


def test_words_are_looked_for_once_and_counted_as_they_are_shown(served):
  spy = mock.patch.object(ranking, "search_words", wraps=ranking.search_words)
  with spy as search_words:
    found = search_page_of(served, "鄭人")
  assert search_words.call_count == 1
  assert found.num_units == len(found.answer.results) > 1


def test_timeline_counts_only_what_is_shown(served):
  for near, number in ((False, 1), (True, 2)):
    query = queries.parse_query({"q": "日食", "near": "1" * near}, 1000)
    found = search_page.search(served, queries.resolve_query(served, query))
    assert found.answer.counts["matches"] == number
    total = sum(bar.matches for bar in found.timeline.bars)
    assert total == pytest.approx(number, abs=0.1)


def test_switches_lead_to_other_orders_parts_and_events(client):
  page = read(client, "/", q="日食")
  assert "1 with 日食; 1 have parts of it." in page
  links = re.findall(r'href="(/\?q=[^"]*(?:sort|near|group)=[^"]*)"', page)
  asked = [html.unescape(link).partition("&")[2] for link in links]
  assert asked == ["near=1", "sort=time", "sort=relevance", "group=event"]
  for link in links:
    read(client, html.unescape(link))
  month = read(client, "/", q="魯隱公元年五月")
  assert '<a class="read" href="/month/4">' in month
  assert '<a class="read" href="/year/0">' in month
  assert '<a class="read" href="/year/0">' in read(client, "/", q="722 BCE")


def test_a_page_behind_the_last_is_the_last(client):
  asked = {"q": "魯隱公元年", "page": 99}
  answer = client.get("/", params=asked, follow_redirects=True)
  assert answer.status_code == 200
  assert "克段" in answer.text


def test_large_numbers_are_written_out():
  template = rendering._environment().from_string("{{ 1020.4 | amount }}")
  assert template.render() == "1,020"


def test_work_that_a_question_names_by_its_title_is_counted(served):
  found = search_page_of(served, "《Notes》日食")
  assert found.resolved.question.works
  assert {it.work for it in found.answer.results} == {"notes"}
  assert found.num_units == len(found.answer.results)
  assert sum(bar.matches for bar in found.timeline.bars) > 0


@pytest.mark.parametrize("path", ["/?q=鄭人", "/month/4", "/year/4"])
def test_a_page_asks_for_the_names_of_its_records_at_once(client, path):
  wraps = served_index.name_records
  with mock.patch.object(served_index, "name_records", wraps=wraps) as names:
    assert "/record/annals/" in read(client, path)
  assert names.call_count == 1


def test_no_page_shows_a_name_that_only_the_program_uses(client):
  for path in ("/?q=鄭人", "/record/notes/notes-0", "/month/4", "/year/4"):
    shown = re.sub(r"<[^>]*>", " ", read(client, path))
    assert not re.search(r"\bnats\b|log odds|對數|\bp [.<]\d|ordinal", shown)


def test_files_are_compressed_and_kept_by_the_browser(client):
  page = client.get("/")
  assert page.headers["content-encoding"] == "gzip"
  size = 0
  for address in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)):
    file = client.get(address)
    assert "immutable" in file.headers["cache-control"]
    size += int(file.headers["content-length"])
  assert 0 < size < 20_000  # bytes, for all pages together
  assert client.get("/static/site.css").status_code == 404


def test_start_page_says_what_is_here_and_its_examples_find_something(client):
  page = read(client, "/")
  assert "9 records in 2 works" in page or "10 records in 2 works" in page
  assert "722 BCE" in page
  examples = re.search('class="examples">(.*?)</ul>', page, re.DOTALL)[1]
  links = re.findall('href="(/[?]q=[^"]+)"', examples)
  assert len(links) >= 3
  for address in links:
    found = read(client, address.replace("&amp;", "&"))
    assert "Nothing found" not in found
  nothing = read(client, "/", q="龘龘")
  assert 'class="examples"' in nothing
