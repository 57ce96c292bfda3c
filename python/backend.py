"""Builds tapline-py from source (PEP 517). maturin builds the native module; this adds what maturin does not do.

A wheel also has the command `tapline`, and a source distribution also has the crates of which it is made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

FEATURES = "full"
# The files that git knows, without those that only tests and readers need. (The CLI has a link to the pages in docs.)
SOURCES = [".", ":!docs", ":!fixtures"]

Settings = Mapping[str, Any] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    build_command(maturin.get_maturin_pep517_args(config_settings))
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    build_command(maturin.get_maturin_pep517_args(config_settings))
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_command(args: list[str]) -> None:
    """Builds the command and puts it where maturin finds it, with the profile that maturin is given.

    TAPLINE_COMMAND is one that is already built: tests build it once for all.
    """
    place = Path("python/tapline.data/scripts/tapline")
    if built := os.environ.get("TAPLINE_COMMAND"):
        shutil.copy(built, place)
        return
    profile = args[args.index("--profile") + 1] if "--profile" in args else "release"
    if shutil.which("cargo") is None:
        # maturin requires it where there is no Rust, and does the same for itself.
        from puccinialin import setup_rust

        os.environ.update(setup_rust())
    with tempfile.TemporaryDirectory() as folder:
        words = ["cargo", "install", "--locked", "--no-track", "--path", "crates/tapline-cli", "--features", FEATURES]
        subprocess.run([*words, "--profile", profile, "--root", folder], check=True)
        shutil.copy(Path(folder, "bin", "tapline"), place)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """The files of the workspace as git lists them. maturin would only take the crates of the native module."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *SOURCES], stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        info = prepare_metadata_for_build_wheel(folder, config_settings)
        name = info.removesuffix(".dist-info")
        # Links become what they lead to.
        with tarfile.open(Path(sdist_directory, f"{name}.tar.gz"), "w:gz", dereference=True) as archive:
            archive.add(Path(folder, info, "METADATA"), f"{name}/PKG-INFO", filter=anonymous)
            for path in filter(None, os.fsdecode(listed).split("\0")):
                archive.add(path, f"{name}/{path}", filter=anonymous)
    return f"{name}.tar.gz"


def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The same file, whoever made the archive. The pictures of the documentation stay out."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return None if info.name.endswith("/docs/pictures") else info
