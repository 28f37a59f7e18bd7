"""Tries to use a folder without the right to write there, and says what happened."""

from __future__ import annotations

import os
import sys

import viewkeeper as vk

if __name__ == "__main__":
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        vk.open(sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error, sep="\n", flush=True)
