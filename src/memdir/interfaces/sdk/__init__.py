"""Adapters: a memdir store behind the memory interfaces of other SDKs, one module each, each an extra.

They translate and hold no rule of memory. Without its SDK, an adapter's import names the extra that brings it.
"""


def make_missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The error to raise in place of a failed import: the same, with the extra to install."""
    if (error.name or "").partition(".")[0] == "memdir":
        return error
    message = f"this adapter needs {error.name}, which is not installed: pip install 'memdir[{extra}]'"
    return ModuleNotFoundError(message, name=error.name)
