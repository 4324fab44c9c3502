"""Corrections that show their effect: tried out, listed, undone together."""

import re

import pytest

from ctd_jax.index import date_changes
from ctd_jax.index.asking import Index
from ctd_jax.web import build_jobs
from tests.index import corpora
from tests.web.conftest import open_client, read_fields, wait_for

TEXTS = {
  "annals": (
    "隱公元年春，王正月。\n三月，公及邾儀父盟于蔑。\n"
    "夏五月，鄭伯克段于鄢。\n秋七月，天王使宰咺來歸賵。\n"
    "二年春，公會戎于潛。\n夏五月，莒人入向。\n"
  ),
  "notes": (
    "隱公元年春，王正月。\n三月，公及邾儀父盟于蔑，書盟，譏之也。\n"
    "二年春，公會戎于潛，譏也。\n"
  ),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
  folder = tmp_path_factory.mktemp("redating")
  for name, text in TEXTS.items():
    path = folder / f"{name}.txt"
    path.write_text(text, encoding="utf-8")
    corpora.build_index(
      folder / "index", path, reigns="lu", use_passages=False, unit="line"
    )
  return folder / "index"


def save(client, others=(), **fields):
  address = f"/correct?work={fields['work']}&first={fields['first']}"
  page = client.get(address).text
  values = read_fields(page) | fields | {"other": others}
  return page, client.post("/corrections", data=values)


def run(client, **values):
  """Starts dating again and returns the page of the job when it is done."""
  page = client.get("/corrections").text
  form = page.partition("/corrections/redate")[2]
  address = client.post(
    "/corrections/redate", data=read_fields(form) | values
  ).headers["location"]
  jobs = client.app.state.jobs
  wait_for(lambda: not jobs.get(address.split("/")[-1]).is_active)
  return address, client.get(address).text


@pytest.mark.slow
def test_a_step_is_tried_out_made_listed_and_undone(built):
  with open_client(built) as client:
    page, saved = save(
      client,
      ["notes/2"],
      work="annals",
      first="2",
      date="隱公元年四月",
    )
    assert "書盟，譏之也" in page.partition("<fieldset>")[2]
    assert saved.status_code == 303
    store = Index.open(built).corrections
    assert {row.work for row in store.active()} == {"annals", "notes"}

    address, page = run(client, dry_run="1")
    assert "2 of 7 records would change" in page
    assert "The pages now show the result" not in page
    assert "魯隱公元年三月" in page
    assert "魯隱公元年四月" in page
    assert "set by a reader" in page
    assert 'href="/record/annals/2"' in page
    assert "/corrections/redate" in page
    assert not Index.open(built).record(2).date.is_fixed

    address, page = run(client)
    assert "2 of 7 records have changed" in page
    job = client.get(f"/api{address}").json()
    assert [it["record_id"] for it in job["report"]["changes"]] == ["2", "2"]
    assert job["report"]["applied"] == [1, 2]

    form = page.partition('action="/corrections/undo"')[2]
    undone = client.post("/corrections/undo", data=read_fields(form))
    assert undone.headers["location"] == "/corrections#corrections"
    assert store.count(only_active=True) == 0
    _, page = run(client)
    assert "2 of 7 records have changed" in page


def test_changes_that_a_stranger_wrote_are_left_out(writer, folder):
  jobs = writer.app.state.jobs
  job = jobs.start("redate", build_jobs.Redating(), "redate")
  wait_for(lambda: not jobs.get(job.id).is_active)
  path = folder / "jobs" / f"{job.id}.changes.json"
  for content in ("[]", '{"changes": [{"work": "<b>"}]}', '{"applied": ["1"]}'):
    path.write_text(content, encoding="utf-8")
    assert jobs.get(job.id).report is None


def test_a_list_of_changes_lines_up():
  month = date_changes.ToldDate(
    name="魯隱公元年三月",
    common_era="722 BCE",
    probability=0.5,
    is_fixed=False,
  )
  report = date_changes.RedateReport(
    changes=tuple(
      date_changes.ChangedRecord(
        work="annals",
        title="魯史",
        record_id=str(number),
        text="盟。",
        before=month,
        after=month,
      )
      for number in range(25)
    ),
    num_records=30,
  )
  lines = date_changes.format_changes(report).splitlines()
  assert len(lines) == 1 + 20 + 1
  assert re.fullmatch(r"25 of 30 .*, 5 of them not shown", lines[-1])
