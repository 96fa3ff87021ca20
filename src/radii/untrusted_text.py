"""Text of strangers: files that can be read to their end, names that are safe to show in terminals and pictures."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from radii.errors import InputError

OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/proc/")  # pipes there are open: somebody writes to them
# C0 and C1 controls but for tab and newline, marks of direction, line separators, tags, halves of surrogate pairs
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def check_file(path: Path) -> None:
    """Refuse, before it is opened, what is no file that ends: a pipe waits for ever, and ``/dev/zero`` has no end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        raise InputError(f"There is no file {path}.") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; give a file.")
    if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and str(path).startswith(OPEN_FILES)):
        raise InputError(f"{path} is a pipe, a socket or a device; give a regular file.")


def clean(text: str) -> str:
    """``text`` with characters that steer terminals, turn the direction of text or have no UTF-8 written as escapes.

    >>> clean("cat\\x1b[2Jdog")
    'cat\\\\x1b[2Jdog'
    """
    return _UNSAFE.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
