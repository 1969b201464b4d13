"""Tokens that tell what they are by their shape, as their vendors document it. Tables; nothing is matched here.

A prefix alone is never enough: it must be followed by as many characters as the vendor gives out. Identifiers that open
nothing by themselves (account numbers, publishable keys) are not in it.
"""

from memdir.secrets.clouds import CLOUDS
from memdir.secrets.records import Rule
from memdir.secrets.services import SERVICES

_W = "[A-Za-z0-9_-]"

_KEYS = (
    Rule(
        "private-key",
        "a private key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[^-]{0,300}?[A-Za-z0-9+/]{30})"
        r"[^-]{30,20000}+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        ("private key",),
        inside=True,
    ),
    Rule(
        "private-key",
        "a PuTTY private key",
        r"PuTTY-User-Key-File-[23]: [^\n]{1,60}(?:\n[ \t>]{0,20}(?:[A-Za-z0-9-]{3,20}: [^\n]{0,200}"
        r"|[A-Za-z0-9+/=]{1,76}))*+",
        ("putty-user-key-file",),
        inside=True,
    ),
)
# A signed token: header and claims in base64 of JSON. Its header is read before it counts.
JWT = Rule(
    "jwt", "a signed token (JWT)", f"eyJ{_W}{{14,1000}}\\.eyJ{_W}{{14,8000}}(?:\\.{_W}{{10,2000}})?", (".eyj",), 3.0
)

FORMATS: tuple[Rule, ...] = (*_KEYS, *CLOUDS, *SERVICES, JWT)
