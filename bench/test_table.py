"""The table shows and judges rows as BENCHMARKS.md says: `scripts/test bench` runs this."""

import contextlib
import io
import json
import unittest

from table import BEGIN, END, Figure, Row, Table, put


def cells(row, is_judged=True):
    return row.markdown(is_judged).strip("| ").split(" | ")


class Rows(unittest.TestCase):
    def test_a_ratio_above_one_is_better_whatever_the_unit(self):
        for ours, peer, unit in ((300, 100, "MB/s"), (1, 3, "s"), (10, 30, "MiB")):
            self.assertEqual(Row("x", Figure(ours, unit), Figure(peer, unit), {}).ratio, 3, unit)

    def test_figures_have_three_digits_and_the_unit_that_fits(self):
        for figure, text in (
            (Figure(836.6, "MB/s", 735.2), "837 MB/s (735)"),
            (Figure(0.0453, "s", 0.0571), "45.3 ms (57.1)"),
            (Figure(1.987, "s", 0.58), "1.99 s (580 ms)"),
            (Figure(0.000334, "s"), "334 µs"),
            (Figure(49, "MB/s", note="3 lines not read"), "49 MB/s, 3 lines not read"),
        ):
            self.assertEqual(str(figure), text)

    def test_each_promise_is_kept_or_not(self):
        speed, peer, time = Figure(200, "MB/s"), Figure(100, "MB/s"), Figure(0.0025, "s")
        for row, text in (
            (Row("x", speed, peer, {"ratio_at_least": 3}), "≥ 3× ✗"),
            (Row("x", speed, peer, {"ratio_at_least": 2}), "≥ 2× ✓"),
            (Row("x", speed, None, {"at_least": 200}), "≥ 200 MB/s ✓"),
            (Row("x", Figure(0.061, "s"), None, {"at_most": 0.06}), "≤ 60 ms ✗"),
            (Row("x", Figure(0, "events"), Figure(0, "events"), {"at_most": 0}), "≤ 0 events ✓"),
            (Row("x", time, Figure(0.002, "s"), {"within": 1.2}), "≤ 1.2 × the peer's ✗"),
            (Row("x", time, Figure(0.002, "s"), {"at_most_more": 0.001}), "≤ 1 ms more ✓"),
            (Row("x", Figure(156, "jobs/s"), Figure(68, "jobs/s"), {"at_least": 200, "ratio_at_least": 0.5}), "≥ 200 jobs/s, or ≥ 0.5× ✓"),
        ):
            self.assertEqual(cells(row)[-1], text)

    def test_a_run_that_is_not_judged_has_no_marks(self):
        row = Row("x", Figure(1, "MB/s"), None, {"at_least": 200})
        self.assertEqual(cells(row, is_judged=False)[-1], "≥ 200 MB/s")

    def test_a_bar_in_a_name_does_not_end_the_cell(self):
        self.assertIn("`cat \\| wc -l`", Row("`cat | wc -l`", Figure(1, "s"), None, {}).markdown(True))


class Tables(unittest.TestCase):
    def test_a_line_of_a_program_becomes_a_row(self):
        table = Table(is_judged=True)
        line = {"benchmark": "a / b", "tapline": {"value": 2, "unit": "s"}, "peer": {"value": 1, "unit": "s"}, "promised": {"within": 1.2}}
        with contextlib.redirect_stderr(io.StringIO()):
            table.line(json.dumps(line))
        table.peers = {"jq": "1.6", "axum": "0.8"}
        text = table.markdown("Commit abc.")
        self.assertTrue(text.startswith("Commit abc. Peers: axum 0.8, jq 1.6.\n\n| benchmark | "), text)
        self.assertTrue(text.endswith("|\n| a / b | 2 s | 1 s | 0.50× | ≤ 1.2 × the peer's ✗ |\n"), text)
        self.assertEqual(table.not_kept(), ["a / b"])

    def test_a_table_takes_the_place_of_the_one_before(self):
        page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
        self.assertEqual(put(page, "new\n"), f"before\n{BEGIN}\nnew\n{END}\nafter\n")


if __name__ == "__main__":
    unittest.main()
