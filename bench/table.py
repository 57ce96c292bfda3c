"""The one table of all benchmarks: what was measured, beside a peer, and what is promised. Every row of every part goes through here."""

import json
import sys
from dataclasses import dataclass

# Of these, more is better. Of everything else, less is.
MORE = {"MB/s", "jobs/s"}
HEAD = "| benchmark | tapline | peer | ratio | promised |\n|---|---|---|---|---|"
BEGIN, END = "<!-- the table: scripts/bench --write puts it here -->", "<!-- the end of the table -->"


def number(value):
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def measure(value, unit):
    """A number with its unit. Times are in seconds."""
    if unit == "s" and value < 1:
        value, unit = (value * 1e6, "µs") if value < 0.001 else (value * 1e3, "ms")
    return f"{number(value)} {unit}"


def times(ratio):
    digits = 0 if ratio >= 100 else 1 if ratio >= 0.95 else 2
    return f"{ratio:.{digits}f}×"


@dataclass
class Figure:
    value: float
    unit: str
    # In brackets: the worst round, or the processor time.
    aside: float | None = None
    note: str = ""

    def __str__(self):
        text = measure(self.value, self.unit)
        if self.aside not in (None, self.value):
            aside = measure(self.aside, self.unit)
            # The same unit is not said twice.
            text += f" ({aside.split()[0] if aside.split()[1] == text.split()[1] else aside})"
        return text + (f", {self.note}" if self.note else "")


# What can be promised about a figure and its peer: in words, and whether it is kept.
PROMISES = {
    "ratio_at_least": lambda bound, row: (f"≥ {bound:g}×", row.ratio >= bound),
    "at_least": lambda bound, row: (f"≥ {measure(bound, row.tapline.unit)}", row.tapline.value >= bound),
    "at_most": lambda bound, row: (f"≤ {measure(bound, row.tapline.unit)}", round(row.tapline.value, 9) <= bound),
    "within": lambda bound, row: (f"≤ {bound:g} × the peer's", row.tapline.value <= bound * row.peer.value),
    "at_most_more": lambda bound, row: (f"≤ {measure(bound, row.tapline.unit)} more", row.tapline.value <= row.peer.value + bound),
}


@dataclass
class Row:
    benchmark: str
    tapline: Figure
    peer: Figure | None
    # One of these must be kept.
    promised: dict

    @property
    def ratio(self):
        """How many times better tapline is than the peer."""
        if self.peer is None or 0 in (self.peer.value, self.tapline.value):
            return None
        ratio = self.tapline.value / self.peer.value
        return ratio if self.tapline.unit in MORE else 1 / ratio

    def judged(self):
        """What is promised, in words, and whether it is kept: None if nothing is."""
        said = [PROMISES[kind](bound, self) for kind, bound in self.promised.items()]
        return ", or ".join(text for text, _ in said), any(kept for _, kept in said) if said else None

    def markdown(self, is_judged):
        text, kept = self.judged()
        if is_judged and kept is not None:
            text += " ✓" if kept else " ✗"
        cells = [self.benchmark, str(self.tapline), str(self.peer or "—"), "—" if self.ratio is None else times(self.ratio), text]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Table:
    """Rows as they come. Each is told at once; the whole is printed at the end."""

    def __init__(self, is_judged):
        self.is_judged = is_judged
        self.rows = []
        # The versions of the peers.
        self.peers = {}

    def row(self, benchmark, tapline, peer=None, **promised):
        row = Row(benchmark, tapline, peer, promised)
        self.rows.append(row)
        print(row.markdown(self.is_judged), file=sys.stderr, flush=True)

    def line(self, text):
        """A row that a program wrote as a line of JSON."""
        row = json.loads(text)
        peer = row["peer"] and Figure(**row["peer"])
        self.row(row["benchmark"], Figure(**row["tapline"]), peer, **(row["promised"] or {}))

    def not_kept(self):
        return [row.benchmark for row in self.rows if self.is_judged and row.judged()[1] is False]

    def markdown(self, about):
        peers = ", ".join(f"{name} {version}" for name, version in sorted(self.peers.items(), key=lambda peer: peer[0].lower()))
        rows = "\n".join(row.markdown(self.is_judged) for row in self.rows)
        return about + (f" Peers: {peers}." if peers else "") + f"\n\n{HEAD}\n{rows}\n"


def put(page, table):
    """The page with this table in the place of the one that it has."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table}{END}{rest.split(END)[1]}"
