"""`collect --to parquet`: the tables in a store that speaks S3 (moto, on loopback), read back by DuckDB."""

import http.client
import http.server
import json
import logging
import pathlib
import signal
import tempfile
import threading
import unittest
import urllib.parse

import boto3
import duckdb
from moto.server import ThreadedMotoServer

from receiver import HANG, Home

TABLES = ("sessions", "messages", "calls", "costs")
KEY, SECRET = "AKIAOPERATORSDUMMY", "operators-dummy-secret-key"


def answer(session, number, day, tool=False):
    """A line of a transcript: an answer, on this day or at no known time."""
    content = [{"type": "tool_use", "id": f"t-{session}-{number}", "name": "Bash", "input": {"command": "ls"}}] if tool else [{"type": "text", "text": "hi"}]
    usage = {"input_tokens": 10 + number, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    line = {
        "type": "assistant",
        "sessionId": session,
        "cwd": "/work/shop",
        "version": "2.1.0",
        "uuid": f"u-{session}-{number}",
        "requestId": f"r-{session}-{number}",
        "message": {"id": f"m-{session}-{number}", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": content, "stop_reason": "end_turn", "usage": usage},
    }
    if day:
        line["timestamp"] = f"{day}T10:00:00.000Z"
    return json.dumps(line) + "\n"


class Between:
    """Stands between tapline and the store, and notes what is put. `decide` gets the number of a put and its key, and returns an answer of its own, or None."""

    def __init__(self, store):
        self.put, self.decide = [], lambda number, key: None
        self.lock = threading.Lock()
        between = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = None
                if self.command == "PUT":
                    with between.lock:
                        between.put.append(urllib.parse.unquote(self.path.split("?")[0]))
                        number = len(between.put)
                    answer = between.decide(number, self.path)
                if answer is None:
                    onward = http.client.HTTPConnection(store, timeout=HANG)
                    onward.request(self.command, self.path, body, dict(self.headers.items()))
                    got = onward.getresponse()
                    answer = got.status, got.read(), [(name, value) for name, value in got.getheaders() if name.lower() == "etag"]
                    onward.close()
                status, text, headers = (*answer, [])[:3]
                try:
                    self.send_response(status)
                    for name, value in headers:
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    # Whoever asked is gone.
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Holding:
    """Holds a put until it is released."""

    def __init__(self, number):
        self.number, self.came, self.released = number, threading.Event(), threading.Event()

    def __call__(self, number, key):
        if number == self.number:
            self.came.set()
            self.released.wait(HANG)
            return 503, b""
        return None


class User(Home):
    """Somebody with transcripts of Claude Code, and the keys of a store."""

    def __init__(self, url):
        super().__init__()
        self.projects = self.path / ".claude/projects/-work-shop"
        self.projects.mkdir(parents=True)
        self.env.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1", AWS_ENDPOINT_URL=url, AWS_ALLOW_HTTP="true")

    def says(self, session, *answers):
        with open(self.projects / f"{session}.jsonl", "a") as file:
            file.writelines(answers)

    def stats(self, by):
        return json.loads(self.tapline("stats", "--by", by, "--timezone", "UTC", "--json").stdout)["rows"]


class Stored(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        cls.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cls.moto.start()
        cls.addClassCleanup(cls.moto.stop)
        cls.host = "%s:%d" % cls.moto.get_host_and_port()
        cls.s3 = boto3.client("s3", endpoint_url=f"http://{cls.host}", aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")
        cls.addClassCleanup(cls.s3.close)

    def setUp(self):
        self.bucket = "lake-%s" % self.id().rsplit("_", 1)[-1].lower()
        self.s3.create_bucket(Bucket=self.bucket)
        self.dest = f"s3://{self.bucket}/agents/tapline"
        self.between = Between(self.host)
        self.addCleanup(self.between.close)
        self.user = self.home()

    def home(self):
        user = User(self.between.url)
        self.addCleanup(user.close)
        return user

    def some_days(self, user, name="s"):
        for at, day in enumerate(("2026-11-13", "2026-11-14", "2026-11-15")):
            user.says(f"{name}-{at}", answer(f"{name}-{at}", 1, day), answer(f"{name}-{at}", 2, day, tool=True))

    def collect(self, *args, user=None, **kwargs):
        return (user or self.user).tapline("collect", "--to", "parquet", "--once", *args, self.dest, **kwargs)

    def keys(self):
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return sorted(one["Key"] for one in listed)

    def folders(self, keys):
        return sorted({key.split("agents/tapline/")[1].rsplit("/", 1)[0] for key in keys})

    def lake(self):
        """Brings what the store has into a folder, and returns how to ask DuckDB about a table."""
        folder = tempfile.TemporaryDirectory(prefix="tapline-lake-")
        self.addCleanup(folder.cleanup)
        for key in self.keys():
            path = pathlib.Path(folder.name) / key.removeprefix("agents/tapline/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

        def ask(sql):
            for table in TABLES:
                sql = sql.replace(f"${table}", f"read_parquet('{folder.name}/{table}/*/*.parquet', hive_partitioning = true)")
            return duckdb.sql(sql).fetchall()

        return ask

    def is_complete(self, users=None):
        """Checks that the store answers as `tapline stats` does, day by day, and that everything is there once."""
        ask = self.lake()
        told = {}
        for user in users or [self.user]:
            for row in user.stats("day"):
                requests, tokens, cost, calls = told.get(row["key"], (0, 0, 0, 0))
                told[row["key"]] = (requests + row["requests"], tokens + row["tokens"], cost + row["cost_usd"], calls + row["calls"])
        stored = ask("SELECT strftime(m.day, '%Y-%m-%d'), count(*), sum(m.input + m.output + m.cache_read + m.cache_write), sum(m.cost_usd), sum(m.calls) FROM $messages m GROUP BY ALL")
        self.assertEqual({day: (requests, tokens) for day, requests, tokens, _, _ in stored}, {day: row[:2] for day, row in told.items()})
        for day, _, _, cost, calls in stored:
            self.assertAlmostEqual(float(cost), told[day][2], places=9)
            self.assertEqual(calls, told[day][3])
        self.assertEqual(ask("SELECT count(*), count(DISTINCT message || session) FROM $messages")[0], (sum(row[0] for row in told.values()),) * 2)
        sessions = sum(len(user.stats("session")) for user in users or [self.user])
        self.assertEqual(ask("SELECT count(*), count(DISTINCT session) FROM $sessions")[0], (sessions, sessions))
        self.assertEqual(ask("SELECT sum(cost_usd) FROM $costs"), ask("SELECT sum(cost_usd) FROM $messages"))
        self.assertEqual(ask("SELECT count(*) FROM $messages WHERE CAST(date AS VARCHAR) <> strftime(day, '%Y-%m-%d')")[0][0], 0)
        return ask

    def test_answers(self):
        self.some_days(self.user)
        self.user.says("timeless", answer("timeless", 1, None))
        told = self.collect()
        self.assertRegex(told.stderr, r"^tapline: wrote \d+ parts of \d+ \(\d+ rows, \d+ kB\) to s3://")
        ask = self.is_complete()
        self.assertIn("sessions/date=unknown", self.folders(self.keys()))
        self.assertEqual(ask("SELECT session FROM $sessions WHERE date = 'unknown'"), [("timeless",)])
        self.assertEqual(ask("SELECT count(*) FROM $calls WHERE date >= '2026-11-14' AND date < '2026-11-15'"), [(1,)])
        # What the store has is remembered; no key is.
        for path in self.user.path.glob("tapline/parquet/**/*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)
                self.assertNotIn(SECRET, path.read_text())
        self.assertNotIn(SECRET, told.stderr + told.stdout)

    def test_grown(self):
        self.some_days(self.user)
        self.collect()
        self.assertEqual(self.folders(self.between.put), [f"{table}/date=2026-11-{day}" for table in sorted(TABLES) for day in (13, 14, 15)])
        self.between.put.clear()
        self.assertIn("nothing has changed", self.collect().stderr)
        self.assertEqual(self.between.put, [])
        self.user.says("s-1", answer("s-1", 3, "2026-11-16"))
        self.collect()
        self.assertEqual(self.folders(self.between.put), ["costs/date=2026-11-16", "messages/date=2026-11-16", "sessions/date=2026-11-14"])
        self.is_complete()
        self.between.put.clear()
        self.collect("--again")
        self.assertEqual(len(self.between.put), 14)

    def test_machines(self):
        other = self.home()
        self.some_days(self.user)
        self.some_days(other, "o")
        self.collect()
        self.collect(user=other)
        self.assertEqual(len({key.rsplit("/", 1)[1] for key in self.keys()}), 2)
        self.is_complete([self.user, other])

    def test_killed(self):
        self.some_days(self.user)
        # Each put in turn is the last one: the store gets it, or never does.
        for number in range(1, 13):
            self.between.put.clear()
            self.between.decide = held = Holding(number)
            child = self.user.start("collect", "--to", "parquet", "--once", "--again", self.dest)
            self.assertTrue(held.came.wait(HANG))
            child.send_signal(signal.SIGKILL)
            self.assertEqual(child.wait(HANG), -signal.SIGKILL)
            held.released.set()
            ask = self.lake()
            for table in TABLES if number > 9 else ():
                # What is there is whole.
                self.assertGreater(ask(f"SELECT count(*) FROM ${table}")[0][0], 0)
        self.between.decide = lambda number, key: None
        self.between.put.clear()
        self.collect()
        self.assertEqual(len(self.between.put), 1, "only what was not there")
        self.is_complete()

    def test_stopped(self):
        self.some_days(self.user)
        self.between.decide = held = Holding(3)
        child = self.user.start("collect", "--to", "parquet", "--once", self.dest)
        self.assertTrue(held.came.wait(HANG))
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(HANG), 143)
        held.released.set()
        self.between.decide = lambda number, key: None
        self.collect()
        self.is_complete()

    def test_refused(self):
        self.some_days(self.user)

        def fails(*told, code=1, **env):
            ran = self.collect(check=False, **env)
            self.assertEqual(ran.returncode, code, ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
            for text in told:
                self.assertIn(text, ran.stderr)
            self.assertNotIn(SECRET, ran.stderr)
            self.assertEqual(self.keys(), [])

        wrong = b'<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>'
        self.between.decide = lambda number, key: (403, wrong)
        fails("does not let tapline write", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY")
        self.between.decide = lambda number, key: None
        dest, self.dest = self.dest, "s3://nobody-made-this/x"
        fails("there is no bucket `nobody-made-this`")
        self.dest = dest
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as gone:
            nobody = "http://127.0.0.1:%d" % gone.server_address[1]
        fails("cannot write to", nobody, "refused", AWS_ENDPOINT_URL=nobody)
        fails("AWS_ALLOW_HTTP=true", AWS_ALLOW_HTTP="false", code=2)
        self.collect()
        self.is_complete()

    def test_again(self):
        self.some_days(self.user)
        self.between.decide = lambda number, key: (403, b"") if number == 2 else None
        child = self.user.start("collect", "--to", "parquet", "--every", "1s", self.dest)
        failed = child.stderr.readline()
        self.assertIn("does not let tapline write", failed)
        self.assertIn("tried again in 1s", failed)
        self.assertIn("wrote 11 parts of 12", child.stderr.readline())
        self.user.says("s-2", answer("s-2", 3, "2026-11-15"))
        self.assertIn("wrote 3 parts of 12", child.stderr.readline())
        self.is_complete()
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(HANG), 0)
        self.assertEqual(child.stderr.read(), "")

    def test_large(self):
        # More than one pass has room for: it goes through a file, and in pieces.
        self.user.says("large", *(answer("large", number, "2026-11-14") for number in range(132_000)))
        self.some_days(self.user)
        self.collect()
        self.is_complete()


if __name__ == "__main__":
    unittest.main()
