"""What an installed tapline-py has. scripts/python runs this in a fresh environment, with the folder of its commands."""

import importlib.metadata
import pathlib
import subprocess
import sys

import tapline
from tapline._command import command

commands = pathlib.Path(sys.argv[1])
version = tapline.__version__
assert version == importlib.metadata.version("tapline-py")
assert command() == str(commands / "tapline")
report = tapline.report(subprocess.run([commands / "tapline", "demo", "--raw"], stdout=subprocess.PIPE, check=True).stdout)
assert report.ok and report.answer.startswith("Fixed:"), report
for words in (["--version"], ["inspect", "nowhere"], ["demo", "--speed", "0"]):
    one, other = (subprocess.run([commands / name, *words], capture_output=True) for name in ("tapline", "tapline-py"))
    assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr), words
about = importlib.metadata.metadata("tapline-py")
assert about.get_all("License-File") == ["LICENSE-MIT", "LICENSE-APACHE"] and about["Author"] == "The tapline authors", about
assert {url.split(",")[0] for url in about.get_all("Project-URL")} >= {"Repository", "Changelog", "Issues"}, about
files = {str(file) for file in importlib.metadata.files("tapline-py")}
assert {f"tapline_py-{version}.dist-info/licenses/{name}" for name in ("LICENSE-MIT", "LICENSE-APACHE")} <= files, files
assert "tapline/py.typed" in files, files
