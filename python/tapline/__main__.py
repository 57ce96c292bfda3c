"""`python -m tapline` is the command `tapline`."""

import os
import sys

from ._command import command


def main() -> None:
    program = command()
    if program is None:
        sys.exit("tapline: this build of the package has no command; `cargo install tapline-cli` installs it")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
