"""What is refused: other hosts, missing tokens, floods; no script of a text."""

import os
import re
import sqlite3

import pytest

from ctd_jax import serve
from ctd_jax.web import rendering
from ctd_jax.web.settings import WebSettings
from tests.index import small_index
from tests.web.conftest import READ_PAGES, open_client

TOKEN = "0123456789abcdef-secret"
PAGES = (
  *READ_PAGES,
  "/about",
  "/api/docs",
  "/nothing",
  "/?page=x",
  "/save/record/notes/notes-0",
)
# Texts of a corpus that try to be more than text.
HOSTILE_TEXTS = (
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "'};alert(1)//",
  "{{ 7*7 }}{% raw %}",
  "</textarea><svg onload=alert(1)>",
  "\u202eevil\u2066 <a href='javascript:alert(1)'>五月</a>",
  "五月，𠮷野家。\U000323af〓\ue000<b>",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_forbids_scripts_that_are_not_ours(client, path):
  response = client.get(path)
  policy = response.headers["content-security-policy"]
  assert "default-src 'none'" in policy
  assert "script-src 'self'" in policy or "script-src" not in policy
  assert "script" in policy or path.startswith("/save")
  assert "unsafe-eval" not in policy
  assert response.headers["x-content-type-options"] == "nosniff"
  assert response.headers["cache-control"] == "no-store"
  assert not re.search(r"<script(?![^>]* src=)", response.text)
  assert not re.search(r'\son\w+="|style="|javascript:', response.text)
  sources = re.findall(r'(?:src|href)="(https?:)?//', response.text)
  assert not [source for source in sources if not source.startswith("http")]


@pytest.mark.parametrize(
  ("host", "status"),
  [
    ("localhost", 200),
    ("localhost:8321", 200),
    ("127.0.0.1:8321", 200),
    ("[::1]:8321", 200),
    ("192.168.1.5:8321", 200),  # no name, so nobody else's
    ("annals.example.org", 200),
    ("evil.example.org", 400),
    ("localhost.evil.example.org", 400),
    ("127.0.0.1.evil.example.org", 400),
    ("127.0.0.1:80/token?", 400),
    ("", 400),
  ],
)
def test_another_name_for_this_machine_is_refused(index_folder, host, status):
  with open_client(index_folder, host_names=("annals.example.org",)) as client:
    response = client.get("/about", headers={"host": host})
    assert response.status_code == status


def test_token_is_asked_for_and_kept_by_the_browser(index_folder):
  with open_client(index_folder, host="0.0.0.0", token=TOKEN) as client:
    refused = client.get("/?q=鄭人")
    assert refused.status_code == 401
    assert "鄭" not in refused.text.replace(refused.request.url.path, "")
    assert 'action="/token"' in refused.text
    assert client.get(rendering.link_static("site.css")).status_code == 200
    assert client.get("/api/ask?q=鄭人").status_code == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/ask?q=鄭人", headers=bearer).status_code == 200
    wrong = client.post("/token", data={"token": "wrong"})
    assert wrong.status_code == 401
    assert "Wrong token" in wrong.text
    right = client.post("/token", data={"token": TOKEN})
    assert right.status_code == 303
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie  # links to pages lead readers in
    assert TOKEN not in cookie
    assert client.get("/?q=鄭人").status_code == 200
    client.cookies.clear()
    forged = client.get("/", headers={"cookie": b"ctd_token=\xe9"})
    assert forged.status_code == 401


@pytest.mark.parametrize("path", ["/", "/?q=鄭人", "/month/4", "/api/ask?q=鄭"])
def test_other_sites_can_link_to_pages_and_nothing_else(client, path):
  for site in ("cross-site", "same-site"):
    for mode, dest, status in (
      ("navigate", "document", 200),
      ("navigate", "iframe", 403),
      ("navigate", "object", 403),
      ("no-cors", "image", 403),
      ("no-cors", "script", 403),
      ("no-cors", "empty", 403),
      ("cors", "empty", 403),
    ):
      headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
      headers["sec-fetch-dest"] = dest
      assert client.get(path, headers=headers).status_code == status, headers
  headers |= {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
  ahead = {"sec-purpose": "prefetch;prerender"}
  assert client.get(path, headers=headers | ahead).status_code == 403
  # A script of another site, in a browser that knows no such headers.
  headers = {"origin": "http://example.org"}
  assert client.get(path, headers=headers).status_code == 403


def test_length_and_chunks_together_are_refused(client):
  headers = {"content-length": "5", "transfer-encoding": "chunked"}
  for path in ("/api/ask", "/static/site.css", "/date"):
    answer = client.post(path, headers=headers, content=b"q=abc")
    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"


def test_link_with_the_token_lets_in(index_folder):
  with open_client(index_folder, token=TOKEN) as client:
    link = f"/token?token={TOKEN}"
    elsewhere = {"sec-fetch-site": "cross-site"}
    assert client.get(link, headers=elsewhere).status_code == 403
    # From a letter that is read in a browser.
    elsewhere |= {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    entered = client.get(link, headers=elsewhere)
    assert entered.headers["location"] == "/"  # the address is left
    assert client.get("/about").status_code == 200
    cookie = dict(client.cookies)
  # After a change of the token, everyone must enter it again.
  with open_client(index_folder, token=TOKEN + "x") as client:
    client.cookies.update(cookie)
    assert client.get("/about").status_code == 401


@pytest.mark.parametrize("way", ["form", "link", "program"])
def test_guesses_are_slowed_and_logged(index_folder, caplog, way):
  with open_client(index_folder, token=TOKEN) as client:
    client.get(f"/token?token={TOKEN}")
    inside = dict(client.cookies)
    client.cookies.clear()

    def give(token):
      if way == "form":
        return client.post("/token", data={"token": token})
      if way == "link":
        return client.get("/token", params={"token": token})
      headers = {"authorization": f"Bearer {token}"}
      return client.get("/api/index", headers=headers)

    statuses = [give(f"wrong {i}").status_code for i in range(15)]
    assert statuses == [401] * 10 + [429] * 5
    assert give(TOKEN).status_code == 429  # or its answer would tell
    assert caplog.text.count("wrong token from testclient") == 10
    assert "wrong 1" not in caplog.text
    client.cookies.update(inside)
    assert client.get("/about").status_code == 200


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    (["--token"], ["--token="]),
    (["--token", "--port=1"], ["--token=", "--port=1"]),
    (["-token", "-port", "1"], ["-token=", "-port", "1"]),
    (["--token", "secret", "--port=1"], ["--token", "secret", "--port=1"]),
    (["--token=secret", "--index=a"], ["--token=secret", "--index=a"]),
  ],
)
def test_token_flag_needs_no_value(arguments, expected):
  assert serve.give_token_a_value(arguments) == expected


def test_token_comes_from_flag_file_or_variable(tmp_path, monkeypatch, caplog):
  assert serve.find_token(None, None) == (None, False)
  first, is_new = serve.find_token("", None)
  assert is_new
  assert len(first) >= 32
  assert serve.find_token("", None)[0] != first
  assert "list of processes" not in caplog.text
  assert serve.find_token(TOKEN, None) == (TOKEN, False)
  assert "list of processes" in caplog.text
  path = tmp_path / "token"
  path.write_text(f"{TOKEN}\n")
  path.chmod(0o600)
  assert serve.find_token(None, str(path)) == (TOKEN, False)
  assert "chmod" not in caplog.text
  path.chmod(0o644)
  serve.find_token(None, str(path))
  assert "chmod 600" in caplog.text
  monkeypatch.setenv("CTD_JAX_TOKEN", TOKEN)
  assert serve.find_token(None, None) == (TOKEN, False)
  assert "CTD_JAX_TOKEN" not in os.environ  # builds do not get it
  with pytest.raises(ValueError, match="--token_file"):
    serve.find_token(TOKEN, str(path))
  with pytest.raises(FileNotFoundError, match="--token_file"):
    serve.find_token(None, str(tmp_path / "none"))
  monkeypatch.setenv("CTD_JAX_TOKEN", f"{TOKEN}\n")
  assert serve.find_token(None, None) == (TOKEN, False)
  read, write = os.pipe()  # as bash has <(command)
  os.write(write, f"{TOKEN}\n".encode())
  os.close(write)
  assert serve.find_token(None, f"/dev/fd/{read}") == (TOKEN, False)
  os.close(read)
  for content in (b"\xff", b"x" * 5_000):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="token"):
      serve.find_token(None, str(path))


@pytest.mark.parametrize(
  ("values", "flag"),
  [
    ({"host": "0.0.0.0"}, "--token"),
    ({"host": "192.168.1.5"}, "--token"),
    ({"host": "annals.example.org"}, "--token"),
    ({"token": "short"}, "--token"),
    ({"token": ""}, "--token"),
    ({"token": f"{TOKEN}\n{TOKEN}"}, "--token"),
    ({"port": 70_000}, "--port"),
    ({"requests_per_minute": -1}, "--requests_per_minute"),
  ],
)
def test_unsafe_settings_are_refused(tmp_path, values, flag):
  with pytest.raises(ValueError, match=flag):
    WebSettings(index=tmp_path, **values).validate()
  WebSettings(index=tmp_path, host="::1").validate()


def test_too_many_requests_are_refused_with_the_time_to_wait(index_folder):
  with open_client(index_folder, requests_per_minute=5) as client:
    statuses = [client.get("/about").status_code for _ in range(8)]
    assert statuses[:5] == [200] * 5
    assert statuses[-1] == 429
    refused = client.get("/about")
    assert refused.headers["retry-after"] == "60"
    assert "wait a minute" in refused.text
    assert client.get(rendering.link_static("site.css")).status_code == 200


@pytest.fixture(scope="module")
def hostile_client(tmp_path_factory):
  """Returns a client of an index whose texts hold markup."""
  folder = tmp_path_factory.mktemp("hostile") / "index"
  small_index.write_index(folder)
  connection = sqlite3.connect(folder / "index.sqlite")
  with connection:
    for row, text in enumerate(HOSTILE_TEXTS, start=1):
      connection.execute(
        "UPDATE records SET text = ?, place = ?, record_id = ? WHERE row = ?",
        (text, text, text, row),
      )
    connection.execute("UPDATE works SET title = ?", (HOSTILE_TEXTS[0],))
  connection.close()
  small_index.write_manifest(folder)
  with open_client(folder) as client:
    yield client


@pytest.mark.parametrize(
  "path",
  [
    *(f"/record/{row}" for row in range(1, len(HOSTILE_TEXTS) + 1)),
    "/month/4",
    "/year/0",
    "/?q=魯隱公元年",
    "/save/?q=魯隱公元年",
    "/about",
    *(f"/?q={text}" for text in HOSTILE_TEXTS[:5]),
  ],
)
def test_markup_of_a_text_is_text(hostile_client, path):
  response = hostile_client.get(path, follow_redirects=True)
  assert response.status_code in (200, 422)
  for part in ("<script>alert", "<img", "<svg onload", "href='java", "49{"):
    assert part not in response.text
  assert "\u202e" not in response.text
  assert not re.search(r"<b>|</textarea><", response.text)


def test_rare_characters_are_whole(hostile_client):
  page = hostile_client.get("/record/7", follow_redirects=True).text
  assert "𠮷野家。\U000323af〓\ue000" in page
  parts = rendering.split_marks("𠮷\U000323af〓", [(1, 2), (0, 1)])
  assert parts == [("𠮷\U000323af", True), ("〓", False)]


@pytest.mark.parametrize(
  "path",
  [
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/..%2fapp.py",
    "/static//etc/passwd",
    "/static/vendor/../app.py",
    "/static/vendor/%2e%2e%2fapp.py",
    "/record/..%2f..%2fmanifest.json",
    "/save/../../etc/passwd",
    "/month/%00",
  ],
)
def test_no_path_leads_to_the_file_system(client, path):
  response = client.get(path)
  assert response.status_code in (303, 307, 400, 404, 422)
  assert "import" not in response.text
  assert "root:" not in response.text
