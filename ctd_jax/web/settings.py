"""Settings of the server: what it serves, to whom, and its limits."""

from __future__ import annotations

import dataclasses
import ipaddress
import pathlib
import socket

LOCAL_HOST, DEFAULT_PORT = "127.0.0.1", 8321
# Of one client, where others than this machine may ask.
DEFAULT_REQUESTS_PER_MINUTE = 600
UPLOAD_PATH = "/upload"
_MIN_TOKEN = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebSettings:
  """What a server serves, to whom, and its limits.

  Attributes:
    index: folder of the index.
    encoder: of its vectors, as of `Index.open`.
    host: address that is listened on.
    port: likewise.
    host_names: further names by which the server is called, as behind a proxy.
    token: secret that a reader has to give; None if nobody is asked for one.
    read_only: whether nobody can correct, upload or build anything.
    max_question: characters of a question or a passage.
    max_body: bytes of a request.
    max_upload: bytes of texts that are brought, unpacked.
    seconds: that an answer may take.
    requests_per_minute: of one client; 0 for any number, None for the default.
  """

  index: pathlib.Path
  encoder: str | None = None
  host: str = LOCAL_HOST
  port: int = DEFAULT_PORT
  host_names: tuple[str, ...] = ()
  token: str | None = None
  read_only: bool = False
  max_question: int = 20_000
  max_body: int = 256 * 1024
  max_upload: int = 64 << 20
  seconds: float = 20.0
  requests_per_minute: int | None = None

  def validate(self) -> None:
    """Raises ValueError, naming the flag, for what cannot be served safely."""
    if not self.is_local and self.token is None:
      raise ValueError(
        f"--host={self.host}: other machines could read the index; expected "
        f"--token=SECRET as well, or --host={LOCAL_HOST}"
      )
    if self.token is not None and len(self.token) < _MIN_TOKEN:
      raise ValueError(
        f"--token: {len(self.token)} characters can be guessed; expected "
        f"{_MIN_TOKEN} or more"
      )
    if not 0 <= self.port < 1 << 16:
      raise ValueError(f"--port={self.port}: expected 0 to 65535")
    if self.requests_per_minute is not None and self.requests_per_minute < 0:
      raise ValueError(
        f"--requests_per_minute={self.requests_per_minute}: expected a number "
        "of requests, or 0 for any"
      )

  def max_body_of(self, path: str) -> int:
    """Returns how many bytes a request for a page may have.

    Args:
      path: of the page.
    """
    # The parts of a form have heads.
    return self.max_upload + (1 << 20) if path == UPLOAD_PATH else self.max_body

  @property
  def is_local(self) -> bool:
    """Whether only this machine reaches the server."""
    if self.host == "localhost":
      return True
    try:
      return ipaddress.ip_address(self.host).is_loopback
    except ValueError:
      return False

  @property
  def allowed_hosts(self) -> tuple[str, ...]:
    """Names that a request may be for; others are another site's attempt."""
    names = ["localhost", self.host, *self.host_names]
    if not self.is_local:
      names.append(socket.gethostname())
    return tuple(dict.fromkeys(names))

  @property
  def rate(self) -> int:
    """Requests a minute that one client may make, 0 for any number."""
    if self.requests_per_minute is not None:
      return self.requests_per_minute
    return 0 if self.is_local else DEFAULT_REQUESTS_PER_MINUTE
