"""Finds the command `tapline` that came with this package."""

from __future__ import annotations

import functools
import importlib.metadata
import os


@functools.cache
def command() -> str | None:
    """The path of the command that was installed with this package; None if there is none (a build without it)."""
    try:
        files = importlib.metadata.distribution("tapline-py").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "tapline" and file.parent.name == "bin":
            path = os.path.normpath(os.fspath(file.locate()))
            return path if os.access(path, os.X_OK) else None
    return None
