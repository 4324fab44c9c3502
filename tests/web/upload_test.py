"""Uploads: what is taken and refused, the preview, and the build."""

import io
import json
import pathlib
import time
import zipfile

import pytest

from ctd_jax.web import upload_files, upload_pages, upload_reading
from ctd_jax.web.requests import PageError
from ctd_jax.web.upload_files import UploadSettings, UploadStore
from ctd_jax.web.upload_reading import ReadingRequest, make_preview
from tests.web.conftest import open_client, read_fields, send_files, wait_for

TEXT = """隱公
元年，春，王正月。
三月，公及邾儀父盟于蔑。
夏，五月，鄭伯克段于鄢。
二年，春，公會戎于潛。
洪武三年，某人來。
"""
LIMIT = 1 << 20


def make_zip(names, mode=0o100644):
  """Returns an archive of names and contents."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for name, content in names.items():
      entry = zipfile.ZipInfo(name)
      entry.external_attr = mode << 16
      archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
  file.seek(0)
  return file


SPACE = 10 * LIMIT  # of all uploads


@pytest.fixture
def store(tmp_path):
  return UploadStore(tmp_path, LIMIT, SPACE)


def add(store, *files, title=""):
  opened = [
    (name, io.BytesIO(it.encode()) if isinstance(it, str) else it)
    for name, it in files
  ]
  return store.add(opened, title, UploadSettings())


def find_refusal(function, *arguments):
  """Returns the code of the message that a call is refused with."""
  with pytest.raises(PageError) as raised:
    function(*arguments)
  return raised.value.message


@pytest.mark.parametrize(
  ("given", "expected"),
  [
    ("宋史.txt", "宋史.txt"),
    ("../../etc/passwd", "etc_passwd"),
    ("a/b\\c:d,e.txt", "a_b_c_d_e.txt"),
    ("..", ""),
    (".hidden", "hidden"),
    ("a\x00b\u202ec", "a_bc"),
    ("--flag=1", "flag=1"),
    ("史" * 300 + ".txt", "史" * 48 + ".txt"),  # 150 bytes at most
  ],
)
def test_names_are_made_safe(given, expected):
  assert upload_files.make_safe_name(given) == expected


def test_text_is_kept_and_found_again(store):
  upload = add(store, ("史.txt", TEXT))
  assert store.source_of(upload).endswith("uploads/史/史/史.txt")
  assert pathlib.Path(store.source_of(upload)).read_text() == TEXT
  assert store.get("史") == upload
  assert store.list() == [upload]
  again = add(store, ("史.txt", TEXT))
  assert again.name == "史-2"
  # Its work is called the same, so that it replaces the one before.
  assert store.source_of(again).endswith("uploads/史-2/史/史.txt")
  store.discard(upload)
  assert store.get("史") is None
  for name in ("..", "../uploads/史-2", "", ".", "史-2/史"):
    assert store.get(name) is None


def test_path_of_a_file_is_not_followed(store):
  for name in ("C:\\texts\\史.txt", "../../史.txt", "a/史.txt"):
    assert add(store, (name, TEXT), title="x").source == "x/史.txt"


def test_archive_of_a_folder_is_unpacked(store):
  names = ["KR9/a_001.txt", "KR9/b/a_002.txt", "KR9/.git/config.txt"]
  names += ["KR9/README.md", "KR9/image.png"]
  archive = make_zip(dict.fromkeys(names, TEXT))
  upload = add(store, ("x.zip", archive))
  assert (upload.title, upload.num_files) == ("KR9", 2)
  assert set(upload.left_out) == {*names[2:]}
  paths = pathlib.Path(store.source_of(upload)).rglob("*.txt")
  assert {path.name for path in paths} == {"a_001.txt", "a_002.txt"}


def test_names_of_older_archives_are_read(store):
  archive = make_zip({"AAAA.txt": TEXT}).getvalue()
  name = "宋史".encode("gb18030")
  archive = io.BytesIO(archive.replace(b"AAAA", name))
  assert add(store, ("x.zip", archive)).source == "x/宋史.txt"


def test_corpus_is_taken_as_beir(store):
  upload = add(store, ("corpus.jsonl", '{"_id": "1", "text": "x"}'))
  assert store.source_of(upload).startswith("beir:")


@pytest.mark.parametrize(
  ("names", "mode", "message"),
  [
    ({"../a.txt": "x"}, 0o100644, "error.upload.path"),
    ({"/etc/a.txt": "x"}, 0o100644, "error.upload.path"),
    ({"a\\..\\..\\b.txt": "x"}, 0o100644, "error.upload.path"),
    ({"C:\\a.txt": "x"}, 0o100644, "error.upload.path"),
    ({"a/" * 20 + "a.txt": "x"}, 0o100644, "error.upload.path"),
    ({"a.txt": "/etc/passwd"}, 0o120777, "error.upload.link"),
    ({"a*.txt": "x", "a?.txt": "x"}, 0o100644, "error.upload.twice"),
    ({"a.png": "x"}, 0o100644, "error.upload.empty"),
    ({"a.txt": "\0" * (LIMIT + 1)}, 0o100644, "error.upload.bytes"),
    ({f"{n}.txt": "" for n in range(2001)}, 0o100644, "error.upload.files"),
  ],
)
def test_bad_archives_are_refused_and_leave_nothing(
  store, tmp_path, names, mode, message
):
  archive = ("x.zip", make_zip(names, mode=mode))
  assert find_refusal(add, store, archive) == message
  assert not list((tmp_path / "uploads").iterdir())


def test_bomb_is_not_inflated_beyond_the_limit(store, tmp_path):
  archive = make_zip({"a.txt": "\0" * (200 << 20)})
  assert len(archive.getvalue()) < LIMIT
  start = time.monotonic()
  assert find_refusal(add, store, ("x.zip", archive)) == "error.upload.bytes"
  assert time.monotonic() - start < 10
  assert not list((tmp_path / "uploads").iterdir())


class CountedFile(io.BytesIO):
  """File that counts what is read of it."""

  num_read = 0

  def read(self, size=-1):
    content = super().read(size)
    self.num_read += len(content)
    return content


def make_long_list(number, comment=b""):
  """Returns an archive of one file whose list has other entries too."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for n in range(number):
      entry = zipfile.ZipInfo(f"{n}.png")
      entry.comment = comment
      archive.writestr(entry, "")
    archive.writestr("a.txt", TEXT)
  return CountedFile(file.getvalue())


def test_long_list_of_entries_is_not_parsed(store, monkeypatch):
  archive = make_long_list(100, comment=b"x" * 60_000)
  monkeypatch.setattr(zipfile.ZipInfo, "__init__", None)
  assert find_refusal(add, store, ("x.zip", archive)) == "error.upload.list"
  assert archive.num_read < 1 << 18
  assert store.list() == []


@pytest.mark.parametrize(
  ("limit", "comment", "message"),
  [(1000, b"x" * 60_000, "error.upload.list"), (50, b"", "error.upload.files")],
)
def test_limits_are_those_of_all_archives_together(
  store, monkeypatch, limit, comment, message
):
  monkeypatch.setattr(upload_files, "MAX_ENTRIES", limit)
  archives = [(f"{n}.zip", make_long_list(30, comment)) for n in range(3)]
  assert add(store, archives[0]).num_files == 1
  assert find_refusal(add, store, *archives) == message


def test_list_of_an_archive_is_parsed_once(store, monkeypatch):
  opened = []
  read = zipfile.ZipFile._RealGetContents

  def count(archive):
    opened.append(archive)
    read(archive)

  monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", count)
  add(store, ("x.zip", make_long_list(1)))
  assert len(opened) == 1


@pytest.mark.parametrize("cut", [None, 10, 60, -30])
def test_damaged_archive_is_named(store, cut):
  archive = bytearray(make_zip({"a.txt": TEXT * 50}).getvalue())
  if cut is None:
    start = archive.rfind(b"PK\x01\x02")
    archive[start + 6] = 99  # version that is needed to extract it
  archive = ("x.zip", io.BytesIO(archive[:cut]))
  assert find_refusal(add, store, archive) == "error.upload.damaged"


def test_abandoned_previews_are_removed(store):
  day = "2020-01-01T00:00:00+00:00"
  old = store.change(add(store, ("a.txt", TEXT)), created=day)
  kept = add(store, ("b.txt", TEXT))
  kept = store.change(kept, created=day, state="accepted")
  new = add(store, ("c.txt", TEXT))
  assert {upload.name for upload in store.list()} == {kept.name, new.name}
  assert not store.folder_of(old).exists()
  assert find_refusal(store.discard, kept) == "error.upload.built"


def test_what_another_process_changed_meanwhile_stays(store, tmp_path):
  upload = add(store, ("a.txt", TEXT))
  UploadStore(tmp_path, LIMIT, SPACE).change(
    upload, job_id="1", state="accepted"
  )
  assert store.change(upload, title="b").job_id == "1"
  assert store.get("a").title == "b"
  assert find_refusal(store.discard, upload) == "error.upload.built"


def test_leftovers_may_vanish_while_they_are_listed(store, tmp_path):
  add(store, ("a.txt", TEXT))
  (tmp_path / "uploads" / ".new-x").symlink_to("gone")
  store.remove_leftovers()
  assert [upload.name for upload in store.list()] == ["a"]


def test_uploads_have_a_space_in_all(tmp_path):
  store = UploadStore(tmp_path, LIMIT, space=4_000)
  add(store, ("a.txt", "元" * 600))
  assert find_refusal(add, store, ("b.txt", "年" * 900)) == "error.upload.space"
  assert [upload.name for upload in store.list()] == ["a"]
  assert not [*(tmp_path / "uploads").glob(".new-*")]
  add(store, ("b.txt", "元年"))
  (tmp_path / "uploads" / "large").write_bytes(bytes(4_000))
  assert find_refusal(add, store, ("c.txt", "元年")) == "error.upload.space"


@pytest.mark.slow
def test_what_readers_send_is_read_by_the_owner_alone(writer, tmp_path):
  gbk = "元年春王正月公即位三月公及邾儀父盟于蔑".encode("gb18030")
  address = send_files(writer, ("a.txt", gbk)).headers["location"]
  wait_for(lambda: "form class" in writer.get(address).text)
  fields = read_fields(writer.get(address).text)
  fields |= {"action": "read", "encoding": "gb18030"}
  assert writer.post(address, data=fields).status_code == 303
  wait_for(lambda: "form class" in writer.get(address).text)
  for path in (uploads := tmp_path / "index" / "uploads").rglob("*"):
    assert not path.stat().st_mode & 0o077, path
  assert not uploads.stat().st_mode & 0o077


@pytest.mark.parametrize(
  "change",
  [
    {"source": "../../../etc/passwd"},
    {"source": "/etc/passwd"},
    {"title": "../.."},
    {"settings": {"reigns": "/etc/passwd"}},
    {"name": "../a"},
  ],
)
def test_upload_of_a_stranger_does_not_lead_out(store, tmp_path, change):
  add(store, ("a.txt", TEXT))
  path = tmp_path / "uploads" / "a" / upload_files.UPLOAD_FILE
  path.write_text(json.dumps(json.loads(path.read_text()) | change))
  assert store.get("a") is None
  assert store.list() == []


def make_request(path, reigns="lu"):
  return ReadingRequest(
    source=str(path),
    root=str(path.parent),
    index=str(path.parent / "none"),
    has_index=False,
    unit="",
    encoding="",
    reigns=reigns,
    output=str(path.parent / "out.json"),
  )


def test_preview_says_what_is_recognised(tmp_path):
  path = tmp_path / "史.txt"
  path.write_text(TEXT)
  preview = make_preview(make_request(path))
  (work,) = preview["works"]
  assert work["records"][0]["text"] == "元年，春，王正月。"
  assert work["num_dates"] >= 5
  expected = {"format": "plain", "num_records": 5, "headings": ["隱公"]}
  expected |= {"manner": "order", "unknown": [("洪武", 1)]}
  assert expected.items() <= work.items()
  assert "洪武" in work["warnings"][0]["text"]
  assert preview["calendar"]["first"] == "魯隱公元年正月"
  assert preview["seconds"] > 0


def test_preview_of_no_dates_and_of_streams(tmp_path):
  path = tmp_path / "注.txt"
  path.write_text("某者，人也。\n盟者，約也。\n")
  preview = make_preview(make_request(path))
  assert preview["works"][0]["manner"] == "model"
  assert make_preview(make_request(path, reigns=""))["calendar_error"]
  path.write_text("隱公\n【經】元年，春，王正月。\n【傳】元年，春，某來。\n")
  (work,) = make_preview(make_request(path))["works"]
  assert dict(work["streams"]) == {"經": 1, "傳": 1}


def test_file_in_another_encoding_is_named_with_its_line(tmp_path):
  path = tmp_path / "史.txt"
  path.write_bytes("甲\n乙\n".encode() + ("元年之人也" * 40).encode("gb18030"))
  with pytest.raises(ValueError, match=r"史\.txt:3: byte"):
    make_preview(make_request(path))


def test_files_are_converted_all_or_none(tmp_path):
  (tmp_path / "a.txt").write_text("元年")
  (tmp_path / "b.txt").write_bytes("元年之人".encode("gb18030"))
  (tmp_path / "c.txt").write_bytes(b"\xff\xff\xff")
  with pytest.raises(PageError) as raised:
    upload_files.convert_files(tmp_path, "gb18030")
  assert raised.value.values["name"] == "c.txt"
  (tmp_path / "c.txt").unlink()
  assert (tmp_path / "b.txt").read_bytes() == "元年之人".encode("gb18030")
  upload_files.convert_files(tmp_path, "gb18030")
  texts = [path.read_text() for path in sorted(tmp_path.iterdir())]
  assert texts == ["元年", "元年之人"]


def test_reading_that_takes_too_long_is_ended(store, tmp_path, monkeypatch):
  popen = upload_reading.subprocess.Popen
  monkeypatch.setattr(
    upload_reading.subprocess,
    "Popen",
    lambda _, **options: popen(("/bin/sleep", "60"), **options),
  )
  reader = upload_reading.UploadReader(tmp_path, store, max_seconds=0.2)
  upload = add(store, ("a.txt", TEXT))
  preview = wait_for(lambda: reader.read(upload))
  assert preview["error_key"] == "upload.too_long"
  reader.close()


def test_small_upload_does_not_wait_for_a_large_one(
  store, tmp_path, monkeypatch
):
  popen = upload_reading.subprocess.Popen
  monkeypatch.setattr(upload_reading, "_MAX_SMALL", 1_000)

  def start(command, **options):
    request = pathlib.Path(command[-1])
    is_large = "large" in str(request)
    return popen(("/bin/sleep", "60" if is_large else "0"), **options)

  monkeypatch.setattr(upload_reading.subprocess, "Popen", start)
  reader = upload_reading.UploadReader(tmp_path, store)
  large = add(store, ("large.txt", TEXT * 1_000))
  assert reader.read(large) is None
  small = add(store, ("small.txt", TEXT))
  preview = wait_for(lambda: reader.read(small))
  assert preview["error_key"] == "upload.failed"  # nothing was read
  assert reader.read(large) is None
  reader.close()


@pytest.mark.slow
def test_line_of_years_is_read_in_seconds(writer):
  begun = time.monotonic()
  sent = send_files(writer, ("a.txt", ("元年" * 30_000).encode()))
  path = sent.headers["location"]
  wait_for(lambda: "progress" not in writer.get(path).text)
  assert "元年" in writer.get(path).text
  assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    (UploadSettings(), []),
    (
      UploadSettings(unit="line", reigns="宋", in_order=("a,b", "c")),
      ["--unit=line", '--order="a,b",c', "--reigns=宋"],
    ),
    (UploadSettings(undated=("a,b", "none")), ['--undated="a,b"']),
  ],
)
def test_arguments_of_the_build(store, tmp_path, settings, expected):
  preview = {"works": [{"name": "a,b"}, {"name": "c"}]}
  upload = add(store, ("a.txt", TEXT))
  task = upload_pages.make_task(upload, settings, preview, has_index=False)
  arguments = task.list_arguments(tmp_path)
  source = f"--add={store.source_of(upload)}"
  assert sorted(arguments) == sorted([source, *expected])


def test_times_are_rough():
  times = map(upload_reading.format_seconds, (3, 44, 300, 9000))
  assert [*map(str, times)] == ["10 s", "40 s", "5 min", "2.5 h"]


def test_text_is_brought_to_a_folder_without_an_index(tmp_path):
  folder = tmp_path / "new.index"
  with open_client(folder) as client:
    assert client.get("/").headers["location"] == "/upload"
    assert client.get("/api/index").status_code == 404
    assert 'name="reigns"' in client.get("/upload").text
    file = ("史.txt", TEXT.encode())
    bad = send_files(client, file, reigns="../../etc/passwd")
    assert bad.status_code == 422
    address = send_files(client, file, reigns="lu").headers["location"]
    assert address == "/upload/%E5%8F%B2"

    def read():
      text = client.get(address).text
      return "http-equiv" not in text and text

    page = wait_for(read)
    assert "鄭伯克段于鄢" in page
    assert "<mark>洪武 <small>1</small></mark>" in page
    jobs = client.app.state.jobs
    jobs._program = ("true",)
    fields = read_fields(page)
    send = {"action": "build", "reigns": "lu", "manner.史": "undated"}
    for _ in range(2):  # sent twice, built once
      response = client.post(address, data=fields | send)
      assert response.headers["location"].startswith("/jobs/")
    (job,) = jobs.list()
    source = f"--add={folder}/uploads/史/史/史.txt"
    assert (job.title, job.subject) == ("史", "upload/史")
    arguments = [source, "--reigns=lu", "--undated=史"]
    assert job.task.list_arguments(folder) == arguments
    assert client.app.state.uploads.get("史").state == "accepted"


def test_settings_that_change_the_reading_are_shown_before_a_build(writer):
  response = send_files(writer, ("a.txt", TEXT.encode()))
  address = response.headers["location"]
  wait_for(lambda: "form class" in writer.get(address).text)
  send = {"action": "build", "unit": "paragraph"}
  send |= read_fields(writer.get(address).text)
  response = writer.post(address, data=send)
  assert response.headers["location"] == f"{address}?changed=1"
  assert not writer.app.state.jobs.list()


def test_form_that_is_sent_twice_leaves_one_preview(writer):
  fields = read_fields(writer.get("/upload").text)

  def send(text, **values):
    file = ("a.txt", text.encode())
    response = send_files(writer, file, fields=fields, **values)
    return response.headers["location"]

  assert [send(TEXT), send(TEXT)] == ["/upload/a", "/upload/a"]
  # Another text, chosen on a page that the browser has kept.
  assert send(TEXT + "三年。") == "/upload/a-2"
  assert send(TEXT, unit="paragraph") == "/upload/a-3"
  assert len(writer.app.state.uploads.list()) == 3


def test_server_that_is_read_only_takes_nothing(index_folder, tmp_path):
  with open_client(index_folder, read_only=True) as client:
    assert "/upload" not in client.get("/").text
    assert client.get("/upload").status_code == 403
  with pytest.raises(FileNotFoundError):
    open_client(tmp_path / "none", read_only=True).__enter__()


def test_more_than_the_limit_is_refused(index_folder):
  with open_client(index_folder, max_upload=1000) as client:
    for number in (2000, 2 << 20):
      response = send_files(client, ("a.txt", b"x" * number))
      assert response.status_code == 413


def test_form_with_too_much_is_told_what_would_be_right(index_folder):
  with open_client(index_folder) as client:
    files = [(f"{n}.txt", b"x") for n in range(upload_files.MAX_FILES + 1)]
    response = send_files(client, *files)
    assert response.status_code == 413
    assert "More than 2,000 files" in response.text
    many = {f"field{n}": "x" for n in range(30)}
    response = send_files(client, files[0], **many)
    assert response.status_code == 413
    assert "The request is larger than the server accepts" in response.text
    response = client.post(
      "/upload", content=b"x", headers={"content-type": "multipart/form-data"}
    )
    assert response.status_code == 422
    assert "does not come from this server" in response.text


def test_folder_of_something_else_is_not_taken(tmp_path):
  (tmp_path / "letters.doc").write_text("x")
  with pytest.raises(ValueError, match=r"letters\.doc"):
    open_client(tmp_path).__enter__()


DAMAGED = (
  *(b"", b"{", b"{}", b"null", b"[]", b"\xff", b'{"settings": 1}'),
  *({"created": "yesterday"}, {"created": "2026-01-01T00:00:00"}),
  *({"state": "x"}, {"name": "b"}, {"settings": {"in_order": "x"}}),
)


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_upload_is_left_and_logged(store, caplog, content):
  upload = add(store, ("a.txt", TEXT))
  whole = add(store, ("b.txt", TEXT))
  path = store.folder_of(upload) / "upload.json"
  values = json.loads(path.read_text()) | {"of a later version": 1}
  path.write_text(json.dumps(values))
  assert store.get(upload.name) == upload
  if isinstance(content, dict):
    content = json.dumps(values | content).encode()
  path.write_bytes(content)
  assert store.list() == [whole]
  assert store.get(upload.name) is None
  store.remove_leftovers()
  assert path.exists()
  assert caplog.text.count("cannot be read") == 1


def test_server_starts_with_damaged_files(folder):
  for name in ("jobs/1.json", "uploads/a/upload.json"):
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("{}")
  with open_client(folder) as client:
    assert client.get("/jobs").status_code == 200
    assert client.get("/upload").status_code == 200
    assert client.get("/jobs/1").status_code == 404
    assert client.get("/upload/a").status_code == 404


def test_damaged_preview_is_read_again(store, tmp_path):
  upload = add(store, ("a.txt", TEXT))
  reader = upload_reading.UploadReader(tmp_path, store)
  for content in ("null", "{}", "{"):
    path = store.folder_of(upload) / "preview.json"
    path.write_text(content)
    assert reader.read(upload, is_built=True) is None
  reader.close()
