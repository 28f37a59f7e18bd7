"""Tries to use a folder without the right to write there, and says what happened."""

from __future__ import annotations

import os
import sys

import viewkeeper as vk

open_database = vk.open
"""Its modules are imported now: another user may not be allowed to read them."""

if __name__ == "__main__":
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        open_database(sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error, sep="\n", flush=True)
