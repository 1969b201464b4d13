"""The bearer token of the server on loopback: any program of any user may knock at a port, so a port alone is no door.

It is made once, 256 random bits in a file that only its owner can read. It never stands in an address, on a command
line or in anything memdir prints.
"""

import hmac
import os
import secrets
import stat
from pathlib import Path

from memdir.errors import SettingsError
from memdir.frozen import dataclass, field
from memdir.small_files import disk_error, read_small, write_private

_BYTES = 4_096
_CHARS = 32  # fewer can be guessed by somebody patient


@dataclass(frozen=True, slots=True)
class Token:
    """The file it stands in, and the value, which no representation shows."""

    file: Path
    value: bytes = field(repr=False)

    def is_shown_by(self, header: bytes) -> bool:
        """Whether an Authorization header shows it; takes as long for a near miss as for any other."""
        scheme, _, given = header.strip().partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.value)


def open_token(path: Path) -> Token:
    """The token of a file, made if there is none; raises SettingsError for one that is no secret."""
    if not os.path.lexists(path):
        _make(path)
    reading = read_small(path, _BYTES, follow=False)
    if reading.data is None:
        raise SettingsError(
            f"the token file {path} cannot be read: {reading.problem or 'it is gone'}", key="token_file"
        )
    _check_mode(path)
    value = reading.data.strip()
    if len(value) < _CHARS or not value.isascii() or not value.decode("ascii").isprintable() or b" " in value:
        message = f"the token file {path} holds no token: one line of at least {_CHARS} plain characters"
        raise SettingsError(message, key="token_file", hint="delete it, and a good one is made")
    return Token(path, value)


def _make(path: Path) -> None:
    """Whoever makes it first wins: two servers that start at once must agree."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    write_private(draft, secrets.token_urlsafe(32).encode("ascii") + b"\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        draft.unlink(missing_ok=True)


def _check_mode(path: Path) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if os.name == "posix" and mode & 0o077:
        message = f"others can read the token file {path} (mode {mode:04o})"
        raise SettingsError(message, key="token_file", hint=f"`chmod 600 {path}`, or delete it and a new one is made")
