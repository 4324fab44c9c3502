"""Settings of the server: whom it serves, and its limits."""

import dataclasses
import ipaddress
import pathlib
import secrets
import socket

LOCAL_HOST, DEFAULT_PORT = "127.0.0.1", 8321
# Per client, if other machines can reach the server.
DEFAULT_REQUESTS_PER_MINUTE = 600
UPLOAD_PATH = "/upload"
_MIN_TOKEN = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebSettings:
  """Index, access and limits of a server."""

  index: pathlib.Path  # folder of the index
  encoder: str | None = None  # as in `Index.open`
  host: str = LOCAL_HOST  # address to listen on
  port: int = DEFAULT_PORT
  # More names of the server, for example behind a proxy.
  host_names: tuple[str, ...] = ()
  # Secret that readers must enter; None for no secret.
  token: str | None = dataclasses.field(default=None, repr=False)
  # Of all processes of a server that cannot keep one.
  secret: bytes = dataclasses.field(
    default_factory=lambda: secrets.token_bytes(32), repr=False
  )
  # For rare characters, first choice first; None for those installed.
  fonts: tuple[pathlib.Path, ...] | None = None
  # Forbids corrections, uploads and builds.
  read_only: bool = False
  max_question: int = 20_000  # characters of a question or passage
  max_body: int = 256 * 1024  # bytes of a request
  max_upload: int = 64 << 20  # bytes of an upload, unpacked
  upload_space: int = 4 << 30  # bytes of all uploads together
  seconds: float = 20.0  # time limit of an answer
  # Per client; 0 for no limit, None for the default.
  requests_per_minute: int | None = None

  def validate(self) -> None:
    """Raises ValueError, naming the flag, if the settings are unsafe."""
    if not self.is_local and self.token is None:
      raise ValueError(
        f"--host={self.host}: other machines could read the index; expected "
        f"--token or --token_file=FILE too, or --host={LOCAL_HOST}"
      )
    if self.token is not None and len(self.token) < _MIN_TOKEN:
      raise ValueError(
        f"--token: {len(self.token)} characters can be guessed; expected "
        f"{_MIN_TOKEN} or more"
      )
    if self.token is not None and not self.token.isprintable():
      raise ValueError("--token: expected one line of letters and signs")
    if not 0 <= self.port < 1 << 16:
      raise ValueError(f"--port={self.port}: expected 0 to 65535")
    if self.requests_per_minute is not None and self.requests_per_minute < 0:
      raise ValueError(
        f"--requests_per_minute={self.requests_per_minute}: expected a number "
        "of requests, or 0 for any"
      )

  def max_body_of(self, path: str) -> int:
    """Returns the largest request body of a path, in bytes."""
    # The parts of a form have headers of their own.
    return self.max_upload + (1 << 20) if path == UPLOAD_PATH else self.max_body

  @property
  def is_local(self) -> bool:
    """Whether only this machine can reach the server."""
    if self.host == "localhost":
      return True
    try:
      return ipaddress.ip_address(self.host).is_loopback
    except ValueError:
      return False

  @property
  def allowed_hosts(self) -> tuple[str, ...]:
    """Host names that requests may use; others are refused."""
    names = ["localhost", self.host, *self.host_names]
    if not self.is_local:
      names.append(socket.gethostname())
    return tuple(dict.fromkeys(names))

  @property
  def rate(self) -> int:
    """Requests per minute and client; 0 for no limit."""
    if self.requests_per_minute is not None:
      return self.requests_per_minute
    return 0 if self.is_local else DEFAULT_REQUESTS_PER_MINUTE
