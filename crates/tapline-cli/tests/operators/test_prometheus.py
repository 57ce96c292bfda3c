"""`/metrics`, scraped by a real Prometheus, and the dashboard's questions, answered by it."""

import json
import os
import re
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from receiver import FIXTURES, ROOT, TOKEN, Home, until

DASHBOARD = ROOT / "docs/grafana/tapline.json"


def expressions():
    """The questions of the dashboard, as Prometheus gets them from Grafana."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            asked = target["expr"]
            for name, value in {"$__rate_interval": "1m", "$__range": "1h", "$__interval": "1m", "$agent": ".*"}.items():
                asked = asked.replace(name, value)
            assert "$" not in asked, asked
            yield panel["title"], asked


class Scraped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Home()
        cls.addClassCleanup(cls.home.close)
        stream = FIXTURES / "claude-2.1.325/tools.jsonl"
        cls.home.agent(f"cat >/dev/null\ncat {stream}\n")
        cls.home.tapline("run", "--agent", "claude", "look around")
        cls.server, cls.address = cls.home.serve()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            cls.at = "127.0.0.1:%d" % free.getsockname()[1]
        config = cls.home.path / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            "  - job_name: tapline\n"
            f"    authorization: {{credentials_file: {cls.home.path}/token}}\n"
            f"    static_configs: [{{targets: ['{cls.address}']}}]\n"
        )
        log = open(cls.home.path / "prometheus.log", "w")
        cls.prometheus = subprocess.Popen(
            [os.environ["PROMETHEUS"], f"--config.file={config}", f"--storage.tsdb.path={cls.home.path}/data", f"--web.listen-address={cls.at}"],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        cls.addClassCleanup(log.close)
        cls.addClassCleanup(cls.prometheus.wait)
        cls.addClassCleanup(cls.prometheus.kill)
        until("the server is scraped", lambda: cls.ask('up{job="tapline"} == 1'))
        until("the run is counted", lambda: cls.ask("sum(tapline_tokens_total) > 0"))

    @classmethod
    def get(cls, path):
        assert cls.prometheus.poll() is None, (cls.home.path / "prometheus.log").read_text()
        try:
            return json.load(urllib.request.urlopen(f"http://{cls.at}{path}"))
        except urllib.error.HTTPError as error:
            # It is not ready yet.
            return None if error.code == 503 else json.load(error)
        except OSError:
            return None

    @classmethod
    def ask(cls, query):
        answer = cls.get("/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        if answer is None:
            return []
        assert answer["status"] == "success", (query, answer)
        return answer["data"]["result"]

    def metrics(self):
        request = urllib.request.Request(f"http://{self.address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        return urllib.request.urlopen(request).read().decode()

    def test_the_numbers_arrive(self):
        until("a finished session", lambda: self.ask('tapline_sessions{state="finished"} == 1'))
        result = json.loads((FIXTURES / "claude-2.1.325/tools.jsonl").read_text().splitlines()[-1])
        cost = until("its cost", lambda: self.ask('tapline_cost_usd_total{agent="claude"}'))
        self.assertAlmostEqual(float(cost[0]["value"][1]), result["total_cost_usd"], places=9)
        self.assertEqual(len(self.ask("tapline_tokens_total")), 4)
        (target,) = self.get("/api/v1/targets")["data"]["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))

    def test_promtool_finds_nothing(self):
        checked = subprocess.run([os.environ["PROMTOOL"], "check", "metrics"], input=self.metrics(), capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_every_question_of_the_dashboard_is_answered(self):
        known = set(re.findall(r"^# TYPE (\S+) ", self.metrics(), re.M))
        asked, used = 0, set()
        for title, expression in expressions():
            names = set(re.findall(r"\btapline_\w+", expression))
            self.assertTrue(names and names <= known, (title, names - known))
            used |= names
            # An answer may be empty, but a question that Prometheus cannot read is an error.
            self.ask(expression)
            asked += 1
        self.assertGreater(asked, 10)
        self.assertEqual(known - used, set(), "metrics that no panel shows")

    def test_the_dashboard_can_be_imported(self):
        board = json.loads(DASHBOARD.read_text())
        self.assertGreaterEqual(board["schemaVersion"], 39)
        self.assertIsNone(board["id"])
        self.assertTrue(board["uid"] and board["title"])
        (source,) = [variable for variable in board["templating"]["list"] if variable["type"] == "datasource"]
        self.assertEqual((source["name"], source["query"]), ("datasource", "prometheus"))
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            if panel["type"] != "row":
                self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"}, panel["title"])
                self.assertTrue(panel["title"] and panel["description"])


if __name__ == "__main__":
    unittest.main()
