"""Samples for reading by eye: draw, places in the source, rates of error."""

import collections
import dataclasses

import pytest

from ctd_jax.benchmark.benchmark import EVENT, NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets import audit_sample, build
from ctd_jax_datasets.chunqiutr import audit_readme
from ctd_jax_datasets.chunqiutr import gallery as gallery_module
from ctd_jax_datasets.common import audit_samples
from ctd_jax_datasets.zztj import gallery as zztj_gallery
from tests.data.chunqiutr import edition_files
from tests.data.zztj import zztj_files
from tests.tools import processes

NAME = "chunqiutr/rebuilt"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  return edition_files.write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def records(files):
  timeline = reigns.load_timeline("lu_release")
  return gallery_module.build_gallery(files, timeline).records


def make_records(number, source="zuozhuan", kind=EVENT):
  return [
    Record(f"{source}{i:04d}", f"{source} {kind} {i}", source, kind, key, i)
    for i, key in enumerate(TimeKey(1, 1 + i % 11, 1) for i in range(number))
  ]


def make_row(number, verdict, weight=1.0, **fields):
  values = {"data": f"{NAME}:3.0.0", "seed": 1, "id": f"r{number:05d}"}
  values |= {"source": "du_yu", "kind": NEG_COMMENT, "key": "1-1-1"}
  values |= {"weight": weight, "digest": f"{number:012d}", "place": "a.txt:1"}
  values |= {"verdict": verdict, "reason": None}
  return audit_samples.VerdictRow(**values | fields)


def test_strata_get_places_by_size_and_none_is_left_out():
  records = [
    *make_records(900),
    *make_records(90, "du_yu", NEG_COMMENT),
    *make_records(10, "lv_zuqian", NEG_COMMENT),
  ]
  counts, weights = collections.Counter(), collections.Counter()
  for drawn in audit_samples.draw_sample(records, 60, seed=1):
    counts[drawn.record.source] += 1
    weights[drawn.record.source] += drawn.weight
  assert counts == {"zuozhuan": 48, "du_yu": 6, "lv_zuqian": 6}
  # The weights of a stratum add up to its records.
  totals = {"zuozhuan": 900, "du_yu": 90, "lv_zuqian": 10}
  assert weights == pytest.approx(totals)
  assert len(audit_samples.draw_sample(records, 5000, seed=1)) == 1000
  with pytest.raises(ValueError, match="a sample of 2 leaves some of the 3"):
    audit_samples.draw_sample(records, 2, seed=1)


def test_the_seed_draws_and_a_new_version_keeps_unchanged_records():
  records = make_records(500)
  drawn = audit_samples.draw_sample(records, 50, seed=1)
  texts = {s.record.text for s in drawn}
  other = audit_samples.draw_sample(records, 50, seed=2)
  assert texts != {s.record.text for s in other}
  # Another version numbers all records anew and changes the text of one.
  changed = drawn[0].record.text
  version = [
    dataclasses.replace(
      record,
      record_id=f"v{index}",
      order=record.order + 7,
      text=record.text + ("。" if record.text == changed else ""),
    )
    for index, record in enumerate(records)
  ]
  again = {s.record.text for s in audit_samples.draw_sample(version, 50, 1)}
  assert len(texts & again) == 49


def test_every_record_is_found_where_it_is_printed(files, records):
  for source, folder in gallery_module.SOURCE_FOLDERS.items():
    text = audit_sample.SourceText(files, folder)
    work = [record for record in records if record.source == source]
    assert work, source
    locate = audit_sample.make_locator(work, text, context=30)
    for record in work:
      place = locate(record)
      assert place is not None, record
      assert files[place.file].is_file()
      assert "<pb:" not in place.before + place.after
      assert "¶" not in place.before + place.after


def test_a_place_is_file_and_line_with_what_stands_around(files, records):
  text = audit_sample.SourceText(files, "zuozhuan_KR1e0001")
  work = [record for record in records if record.source == "chunqiu"]
  locate = audit_sample.make_locator(work, text, context=12)
  record = next(r for r in work if r.text.startswith("秋八月，浯伯"))
  place = locate(record)
  assert place.is_whole
  name, line = place.file, place.line
  printed = files[name].read_text("utf-8").split("\n")[line - 1]
  assert "秋八月，浯伯來朝且請盟" in printed
  assert place.before.endswith("侵我東鄙取柘榆二邑。")
  assert place.after.startswith("。")
  assert len(place.before) == 12


def test_words_printed_twice_are_found_after_the_record_before(tmp_path):
  path = tmp_path / "work.txt"
  path.write_text("秋七月\n公如晉\n冬十月\n公至自晉\n秋七月\n大雩\n", "utf-8")
  text = audit_sample.SourceText({"w/work.txt": path}, "w")
  key = TimeKey(1, 1, 7)
  work = [
    Record(f"r{order}", words, "w", EVENT, key, order)
    for order, words in enumerate(
      ["秋七月。", "公如晉。", "公至自晉。", "秋，七月。", "大雩。", "王崩。"]
    )
  ]
  locate = audit_sample.make_locator(work, text, context=5)
  lines = [getattr(locate(record), "line", None) for record in work]
  assert lines == [1, 2, 4, 5, 6, None]


def test_a_text_with_a_gap_is_found_by_a_part(tmp_path):
  path = tmp_path / "work.txt"
  path.write_text("甲乙丙丁戊己庚辛壬癸子丑(寅/卯)辰巳午未申酉戌亥\n", "utf-8")
  text = audit_sample.SourceText({"w/work.txt": path}, "w")
  words = "甲乙丙丁戊己庚辛壬癸子丑辰巳午未申酉戌亥"
  record = Record("r0", words, "w", EVENT, TimeKey(1, 1, 1), 0)
  place = audit_sample.make_locator([record], text, 4)(record)
  assert (place.line, place.is_whole) == (1, False)


def test_a_placeholder_shows_where_its_month_is_passed_over(files, records):
  placeholder = next(r for r in records if r.kind == NO_EVENT)
  # As if no work told of the sixth month.
  empty = dataclasses.replace(placeholder, key=TimeKey(1, 1, 6))
  sampled = audit_samples.SampledRecord(empty, 1.0, "0")
  (page,) = audit_sample.make_pages(
    [sampled], records, files, gallery_module.SOURCE_FOLDERS, 20
  )
  assert page.place is None
  lines = page.text.splitlines()
  assert "  before  chunqiu 1-1-4 夏，嶧人侵我東鄙取柘榆二邑。" in lines
  assert "  after   chunqiu 1-1-8 秋八月，浯伯來朝且請盟。" in lines
  # Every mention of the month in its year: here a quotation and a date.
  mentions = [line for line in lines if line.startswith("  month   zuozhuan")]
  assert len(mentions) == 2
  assert all("六月" in line for line in mentions)


def test_rates_are_weighted_with_wilson_intervals():
  rows = [make_row(i, "cut" if i < 2 else "ok") for i in range(100)]
  rate = audit_samples.estimate_rate(rows, ["cut"])
  assert (rate.num_errors, rate.num_read) == (2, 100)
  # Wilson's interval of 2 of 100.
  assert (rate.share, rate.low, rate.high) == pytest.approx(
    (0.02, 0.0055, 0.0700), abs=1e-4
  )
  # A stratum that stands for nine times as many counts nine times as much.
  rows = [make_row(i, "month", 9.0) for i in range(10)]
  rows += [make_row(i + 10, "ok", 1.0) for i in range(10)]
  assert audit_samples.estimate_rate(rows, ["month"]).share == 0.9
  equal = [make_row(i, row.verdict) for i, row in enumerate(rows)]
  wide, narrow = (
    audit_samples.estimate_rate(some, ["text"]).high for some in (rows, equal)
  )
  assert wide > narrow
  assert audit_samples.estimate_rate([], ["cut"]).num_read == 0


def test_a_record_with_two_errors_counts_once_in_all():
  verdicts = ("month+cut", "ok", "convention")
  rows = [make_row(number, said) for number, said in enumerate(verdicts)]
  header, *lines = audit_samples.tabulate_rates(rows)
  assert header[:3] == ["", "all", "event"]
  by_label = {label: cells for label, *cells in lines}
  of_all, of_events, *_ = by_label["any error"]
  assert (of_all[:9], of_events) == ("1: 33.3 %", "–")
  errors = [label for label, cells in by_label.items() if cells[0][0] == "1"]
  assert len(errors) == 4  # any, month, cut, and convention, which is no error


def test_verdicts_are_written_read_and_kept(tmp_path):
  records = make_records(30)
  sample = audit_samples.draw_sample(records, 10, seed=3)
  path = tmp_path / "sample.tsv"
  rows = audit_samples.make_rows(sample, "a/b:1.0.0", 3, {})
  audit_samples.write_verdicts(path, rows)
  assert audit_samples.read_verdicts(path) == rows
  with pytest.raises(ValueError, match="10 of 10 records have no verdict"):
    audit_samples.check_all_read(rows, path)
  read = [make_row(0, "cut", digest=rows[0].digest, reason="why")]
  kept = audit_samples.make_rows(sample, "a/b:2.0.0", 3, {}, read)
  assert (kept[0].verdict, kept[0].reason) == ("cut", "why")
  assert all(row.verdict is None for row in kept[1:])


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"verdict": "wrong"}, "sample.tsv:3: verdict='wrong' is not one of ok,"),
    ({"verdict": "ok+cut"}, "sample.tsv:3: verdict='ok.cut' says both"),
    ({"seed": 2}, "sample.tsv:3: of .* with seed 2, the lines above"),
    ({"weight": "x"}, "sample.tsv:3: weight='x'"),
  ],
)
def test_what_is_no_verdict_is_named(tmp_path, changes, message):
  path = tmp_path / "sample.tsv"
  audit_samples.write_verdicts(path, [make_row(0, "ok"), make_row(1, "ok")])
  header, first, second = path.read_text("utf-8").splitlines()
  cells = dict(zip(header.split("\t"), second.split("\t"), strict=True))
  changed = "\t".join(map(str, (cells | changes).values()))
  path.write_text(f"{header}\n{first}\n{changed}\n", "utf-8")
  with pytest.raises(ValueError, match=message):
    audit_samples.read_verdicts(path)


def test_the_rates_of_a_file_are_printed(tmp_path, capsys):
  path = tmp_path / "sample.tsv"
  audit_samples.write_verdicts(path, [make_row(0, "ok"), make_row(1, "cut")])
  audit_sample.main(["", NAME], audit_sample.AuditSettings(verdicts=str(path)))
  assert "1: 50.0 % [9.5, 90.5]" in capsys.readouterr().out


@pytest.mark.parametrize(
  ("name", "flag", "message"),
  [
    ("zztj/rebuilt", "verdicts", "belongs to chunqiutr/rebuilt:3.0.0, not to"),
    (NAME, "output", "sample.tsv exists and may hold verd"),
    ("chunqiutr/mini", "", "chunqiutr/mini is not made of source"),
  ],
)
def test_samples_that_cannot_be_drawn(
  name, flag, message, tmp_path, mini_data_dir
):
  path = tmp_path / "sample.tsv"
  audit_samples.write_verdicts(path, [make_row(0, "ok")])
  flags = {flag: str(path)} if flag else {"data_dir": str(mini_data_dir)}
  with pytest.raises(SystemExit, match=message):
    audit_sample.main(["", name], audit_sample.AuditSettings(**flags))
  assert audit_samples.read_verdicts(path)[0].verdict == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "edition", "module"),
  [
    (NAME, edition_files, gallery_module),
    ("zztj/rebuilt", zztj_files, zztj_gallery),
  ],
)
def test_the_command_on_a_built_data_set(
  name, edition, module, tmp_path, monkeypatch, capsys
):
  sources = tmp_path / "sources"
  edition.write_sources(sources)
  table = tmp_path / "checksums.tsv"
  edition.write_checksums(table)
  monkeypatch.setattr(module, "CHECKSUMS", table)
  monkeypatch.delenv("CTD_JAX_SOURCES", raising=False)
  data_dir, out = str(tmp_path / "data"), tmp_path / "sample.tsv"
  build.build_dataset(name, data_dir, sources)
  audit_sample.main(
    ["", name],
    audit_sample.AuditSettings(14, 5, data_dir, str(sources), str(out)),
  )
  printed = capsys.readouterr().out
  rows = audit_samples.read_verdicts(out)
  assert len(rows) == 14
  assert "14 records, 0 with a verdict" in printed
  for row in rows:
    assert row.id in printed
    assert row.kind == NO_EVENT or row.place
  with pytest.raises(SystemExit, match="name the folder of source texts"):
    audit_sample.main(["", name], audit_sample.AuditSettings(14, 5, data_dir))


def test_help_names_the_flags_and_a_bad_one_is_told_in_one_line():
  module = "ctd_jax_datasets.audit_sample"
  bad = processes.run_python("-m", module, NAME, "--n=0")
  shown = processes.run_python("-m", module, "--help")
  assert bad.returncode == 1
  assert bad.stderr == "error: flag --n=0: 0 is not a positive integer\n"
  assert shown.returncode == 0
  for flag in ("--n", "--seed", "--output", "--verdicts", "--sources"):
    assert flag in shown.stdout


def test_the_readme_has_the_rates_of_the_verdicts(tmp_path):
  path = tmp_path / "verdicts.tsv"
  audit_samples.write_verdicts(path, [make_row(0, "ok"), make_row(1, None)])
  with pytest.raises(ValueError, match="1 of 2 records have no verdict"):
    audit_readme.format_sample(path)
  audit_samples.write_verdicts(path, [make_row(0, "ok"), make_row(1, "text")])
  section = audit_readme.format_sample(path)
  assert "`chunqiutr/rebuilt:3.0.0`, seed 1: 2 records read by eye." in section
  assert "| any error | 1: 50.0 % [9.5, 90.5] | – | – |" in section
