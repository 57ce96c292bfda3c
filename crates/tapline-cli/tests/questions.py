"""Compares answers: SQL from docs/EXPORT.md on the tables of `tapline export` and on those of `tapline collect`, and `tapline stats`. Called by
scripts/questions."""

import datetime
import decimal
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

engine, tapline = sys.argv[1], os.path.abspath(sys.argv[2])
root = os.getcwd()
sessions = os.path.join(root, "fixtures", "transcripts")


def questions():
    """Yields each question, its command and its SQL."""
    page = open(os.path.join(root, "docs", "EXPORT.md"), encoding="utf-8").read()
    part = page.split("\n## Five questions\n")[1].split("\n## ")[0]
    label = {"duckdb": "DuckDB", "clickhouse": "ClickHouse"}[engine]
    for section in part.split("\n### ")[1:]:
        command = re.search(r"```sh\n(tapline stats .*)\n```", section).group(1)
        sql = re.search(r"```sql\n-- " + label + r"\n(.*?)```", section, re.S).group(1)
        yield section.split("\n")[0], command, sql


def ask(sql):
    """Returns the answer as rows with named columns."""
    if engine == "duckdb":
        import duckdb

        answer = duckdb.sql(sql.rstrip().rstrip(";"))
        return [dict(zip(answer.columns, row)) for row in answer.fetchall()]
    import chdb

    # Decimals as text, so that no digit is lost on the way.
    settings = "\nSETTINGS output_format_json_quote_decimals = 1, output_format_json_quote_64bit_integers = 0"
    text = str(chdb.query(sql.rstrip().rstrip(";") + settings, "JSONEachRow"))
    return [json.loads(line) for line in text.splitlines() if line]


def is_same(mine, told):
    if isinstance(mine, datetime.date):
        mine = mine.isoformat()
    if isinstance(told, str) or told is None:
        return mine == told
    # `stats --json` has dollars as floating point.
    return abs(decimal.Decimal(str(mine)) - decimal.Decimal(str(told))) <= decimal.Decimal("1e-9")


def user(folder):
    """Gives a user the sessions of all fixtures, for `tapline collect`, which takes what the user has."""
    for case in sorted(pathlib.Path(sessions).iterdir()):
        for name in ("claude", "codex"):
            if (case / name).is_dir():
                shutil.copytree(case / name, pathlib.Path(folder) / f".{name}", dirs_exist_ok=True)


asked = 0
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    env = {"PATH": os.environ["PATH"], "HOME": folder, "TAPLINE_HOME": os.path.join(folder, "tapline"), "TZ": "Europe/Berlin"}
    run = lambda *args: subprocess.run([tapline, *args], env=env, check=True, stdout=subprocess.PIPE).stdout
    run("export", "--to", "parquet", "-o", "tables", "--quiet", sessions)
    user(folder)
    run("collect", "--to", "parquet", "--once", "--quiet", "lake")
    wrong = []
    for question, command, sql in questions():
        # The days of parts are those of UTC.
        parts = re.sub(r"'tables/(\w+)\.parquet'", r"'lake/\1/*/*.parquet'", sql)
        assert parts != sql, sql
        for what, sql, told in ((question, sql, [sessions]), (f"{question} (in parts)", parts, ["--timezone", "UTC"])):
            told = json.loads(run(*command.split()[1:], "--json", *told))["rows"]
            rows = ask(sql)
            limit = re.search(r"LIMIT (\d+)", sql)
            told = told[: int(limit.group(1))] if limit else told
            if len(rows) != len(told) or not rows:
                wrong.append(f"{what} {len(rows)} rows instead of {len(told)}")
            for mine, other in zip(rows, told):
                for name, value in mine.items():
                    if not is_same(value, other[name]):
                        wrong.append(f"{what} {other['key']}: {name} is {value!r} instead of {other[name]!r}")
            asked += 1
            print(f"{what} {len(rows)} rows, {', '.join(rows[0]) if rows else 'nothing'}")
    os.chdir(root)
if asked != 10 or wrong:
    sys.exit("\n".join([f"scripts/questions: {asked} questions, {len(wrong)} wrong answers", *wrong]))
print(f"{engine}: the same answers as tapline stats")
