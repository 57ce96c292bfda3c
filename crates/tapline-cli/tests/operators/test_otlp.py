"""`tapline export --to otlp` and `tapline serve --otlp`, received with OpenTelemetry's own packages."""

import datetime
import json
import signal
import socket
import unittest
import urllib.request

from conventions import attributes, check_metrics, check_spans, tokens
from receiver import FIXTURES, TOKEN, Home, Receiver, until

TRANSCRIPTS = FIXTURES / "transcripts"


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def receiver(self, **kinds):
        receiver = Receiver(**kinds)
        self.addCleanup(receiver.close)
        return receiver

    def export(self, receiver, *args, **env):
        ran = self.home.tapline("export", "--to", "otlp", "--endpoint", receiver.url, *args, **env)
        return ran.stderr


class Exported(Case):
    def test_every_transcript_keeps_to_the_conventions(self):
        receiver = self.receiver()
        told = self.export(receiver, TRANSCRIPTS)
        by_id = check_spans(receiver.spans)
        self.assertGreater(len(by_id), 200)
        self.assertIn(f"sent {len(by_id)} spans of ", told)
        operations = {attrs.get("gen_ai.operation.name") for _, attrs in by_id.values()}
        self.assertEqual(operations, {"chat", "execute_tool", "invoke_agent", None})
        self.assertEqual({attrs["gen_ai.provider.name"] for _, attrs in by_id.values()}, {"anthropic", "openai"})
        self.assertTrue(any("error.type" in attrs for _, attrs in by_id.values()))
        for resource in receiver.resources:
            about = attributes(resource)
            self.assertEqual(about["service.name"], "tapline")
            self.assertTrue(about["service.version"])
        # What was used is what `tapline stats` says.
        (metrics,) = receiver.metrics
        found = check_metrics(metrics)
        self.assertEqual(set(found), {"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration", "tapline.cost"})
        stats = json.loads(self.home.tapline("stats", "--json", TRANSCRIPTS).stdout)["totals"]
        self.assertEqual(tokens(found, "input"), stats["input"] + stats["cache_read"] + stats["cache_write"])
        self.assertEqual(tokens(found, "output"), stats["output"])
        self.assertAlmostEqual(sum(point.as_double for point, _ in found["tapline.cost"]), float(stats["cost_usd"]), places=9)
        chats = sum(attrs.get("gen_ai.operation.name") == "chat" for _, attrs in by_id.values())
        self.assertEqual(sum(point.count for point, _ in found["gen_ai.client.operation.duration"]), chats)

    def test_sub_agents_stand_below_the_calls_that_started_them(self):
        receiver = self.receiver()
        self.export(receiver, TRANSCRIPTS / "claude-subagents/claude")
        by_id = check_spans(receiver.spans)

        def path(span):
            names = [span.name]
            while span.parent_span_id:
                span = by_id[(span.trace_id, span.parent_span_id)][0]
                names.append(span.name)
            return " < ".join(names)

        agent = "invoke_agent general-purpose < execute_tool Agent < "
        deepest = f"execute_tool Bash < {agent}{agent}invoke_agent claude < session claude"
        self.assertIn(deepest, {path(span) for span, _ in by_id.values()})
        # Tokens as the scripted model counted them: 1001 new, 10003 from the cache, 2004 into it.
        first = next(attrs for _, attrs in by_id.values() if attrs.get("gen_ai.response.id") == "msg_claude_subagents_1")
        usage = [first[f"gen_ai.usage.{name}_tokens"] for name in ("input", "output", "cache_read.input", "cache_creation.input")]
        self.assertEqual(usage, [1001 + usage[2] + usage[3], 102, usage[2], usage[3]])
        self.assertGreater(usage[2], 0)

    def test_exporting_twice_gives_the_same(self):
        one, other = self.receiver(), self.receiver()
        for receiver in (one, other):
            self.export(receiver, TRANSCRIPTS / "claude-background", TRANSCRIPTS / "codex-subagents")
        self.assertEqual([span.SerializeToString() for span in one.spans], [span.SerializeToString() for span in other.spans])
        self.assertEqual([body for _, _, body in one.requests], [body for _, _, body in other.requests])
        self.assertTrue(one.spans)

    def test_texts_are_sent_only_on_request_and_without_secrets(self):
        secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        source = next((TRANSCRIPTS / "claude-denied").glob("claude/projects/*/*.jsonl")).read_text()
        lines = [json.loads(line) for line in source.splitlines()]
        for line in lines:
            content = line.get("message", {}).get("content")
            for block in content if isinstance(content, list) else []:
                if block.get("type") == "tool_use":
                    block["input"]["note"] = f"the token is {secret}"
                elif block.get("type") == "text":
                    block["text"] += f" PLAIN-WORDS {secret}"
        path = self.home.path / "t" / "session.jsonl"
        path.parent.mkdir()
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        without, having = self.receiver(), self.receiver()
        self.export(without, path)
        self.export(having, "--content", path)
        check_spans(without.spans)
        by_id = check_spans(having.spans, with_content=True)
        sent = [b"".join(body for _, _, body in receiver.requests) for receiver in (without, having)]
        self.assertNotIn(b"PLAIN-WORDS", sent[0])
        self.assertIn(b"PLAIN-WORDS", sent[1])
        for body in sent:
            self.assertNotIn(secret.encode(), body)
        arguments = [attrs["gen_ai.tool.call.arguments"] for _, attrs in by_id.values() if "gen_ai.tool.call.arguments" in attrs]
        self.assertTrue(arguments)
        for text in arguments:
            self.assertIn("the token is", json.loads(text)["note"])
        said = [json.loads(attrs["gen_ai.output.messages"]) for _, attrs in by_id.values() if "gen_ai.output.messages" in attrs]
        for (message,) in said:
            self.assertEqual(message["role"], "assistant")
            self.assertTrue(message["finish_reason"] and message["parts"])
        self.assertEqual({tuple(attributes(span)) == () for span in without.spans}, {False})

    def test_a_receiver_that_is_busy_gets_everything_once_it_is_not(self):
        receiver = self.receiver(answers=[(503, 1), (429, 0), (502, None)])
        self.export(receiver, TRANSCRIPTS / "claude-models/claude")
        check_spans(receiver.spans)
        self.assertTrue(receiver.metrics)
        paths = [path for path, _, _ in receiver.requests]
        self.assertEqual(paths, ["/v1/traces"] * 4 + ["/v1/metrics"])

    def test_what_cannot_be_sent_is_said(self):
        refusing = self.receiver(answers=[(400, None)])
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nobody = "http://127.0.0.1:%d" % closed.getsockname()[1]
            for url, words in [
                (refusing.url, ["answers 400"]),
                (nobody, ["does not answer"]),
                (nobody.replace("http:", "https:"), ["does not answer"]),
                ("127.0.0.1:4318", ["is not an address like"]),
            ]:
                ran = self.home.tapline("export", "--to", "otlp", "--endpoint", url, TRANSCRIPTS / "claude-error/claude", check=False)
                self.assertNotEqual(ran.returncode, 0, url)
                for word in words:
                    self.assertIn(word, ran.stderr)
        ran = self.home.tapline("export", "--to", "otlp", check=False)
        self.assertIn("OTEL_EXPORTER_OTLP_ENDPOINT", ran.stderr)

    def test_what_a_receiver_refuses_is_said(self):
        receiver = self.receiver(reject=3)
        told = self.export(receiver, TRANSCRIPTS / "claude-error/claude")
        self.assertIn("refused 3", told)
        self.assertIn("too old", told)

    def test_the_environment_names_receiver_headers_and_resource(self):
        receiver = self.receiver()
        secret = "a-secret-of-the-operator"
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url + "/",
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={secret},x-tenant=two%20words",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=ignored",
            "OTEL_SERVICE_NAME": "agents",
        }
        ran = self.home.tapline("export", "--to", "otlp", TRANSCRIPTS / "claude-error/claude", **env)
        _, headers, _ = receiver.requests[0]
        self.assertEqual((headers["api-key"], headers["x-tenant"], headers["content-type"]), (secret, "two words", "application/x-protobuf"))
        self.assertNotIn(secret, ran.stderr + ran.stdout)
        about = attributes(receiver.resources[0])
        self.assertEqual((about["service.name"], about["deployment.environment.name"]), ("agents", "test"))
        bad = self.home.tapline("export", "--to", "otlp", check=False, **{**env, "OTEL_EXPORTER_OTLP_HEADERS": secret})
        self.assertIn("OTEL_EXPORTER_OTLP_HEADERS", bad.stderr)
        self.assertNotIn(secret, bad.stderr)


class Live(Case):
    def agent(self, session="00000000-0000-4000-8000-000000000001"):
        """An agent that says the first half of what it has to say, waits, and says the rest."""
        said = (FIXTURES / "claude-2.1.325/tools.jsonl").read_text()
        said = said.replace("00000000-0000-4000-8000-000000000001", session)
        # An agent says when it answered.
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = said.replace("2026-11-15T00:00:00.000Z", now).splitlines(keepends=True)
        half = 1 + next(at for at, line in enumerate(lines) if '"tool_result"' in line)
        (self.home.path / "first").write_text("".join(lines[:half]))
        (self.home.path / "rest").write_text("".join(lines[half:]))
        gate = self.home.path / "gate"
        self.home.agent(f'cat >/dev/null\ncat {self.home.path}/first\nwhile [ ! -e {gate} ]; do sleep 0.05; done\ncat {self.home.path}/rest\n')
        return gate

    def test_a_run_is_exported_while_it_goes_on(self):
        # The receiver is busy at first: nothing is lost.
        receiver = self.receiver(answers=[(503, 0), (503, 0)])
        server, _ = self.home.serve("--otlp", receiver.url, OTEL_METRIC_EXPORT_INTERVAL="500")
        gate = self.agent()
        run = self.home.start("run", "--agent", "claude", "look around")
        names = lambda: [span.name for span in list(receiver.spans)]
        until("a tool call arrives while the agent works", lambda: any(name.startswith("execute_tool ") for name in names()))
        self.assertIsNone(run.poll())
        self.assertNotIn("session claude", names())
        gate.touch()
        run.communicate()
        self.assertEqual(run.returncode, 0)
        until("the session arrives", lambda: "session claude" in names())
        cost = lambda metrics: sum(point.as_double for point, _ in check_metrics(metrics).get("tapline.cost", []))
        result = json.loads((self.home.path / "rest").read_text().splitlines()[-1])
        until("its cost arrives", lambda: receiver.metrics and abs(cost(receiver.metrics[-1]) - result["total_cost_usd"]) < 1e-9)
        server.send_signal(signal.SIGTERM)
        _, told = server.communicate()
        self.assertEqual(server.returncode, 0, told)
        by_id = check_spans(receiver.spans)
        turns = [attrs for _, attrs in by_id.values() if attrs.get("gen_ai.operation.name") == "invoke_agent"]
        self.assertEqual(len(turns), 1)
        self.assertEqual(turns[0]["tapline.cost_usd"], result["total_cost_usd"])
        usage = result["usage"]
        total = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        found = check_metrics(receiver.metrics[-1])
        self.assertEqual((turns[0]["gen_ai.usage.input_tokens"], tokens(found, "input")), (total, total))
        self.assertTrue(all("service.instance.id" in attributes(resource) for resource in receiver.resources))
        # The same run, exported from its recording, has the same ids.
        again = self.receiver()
        self.export(again, self.home.path / "tapline/recordings")
        ids = lambda spans: sorted((span.trace_id, span.span_id, span.parent_span_id, span.name) for span in spans)
        self.assertEqual(ids(again.spans), ids(receiver.spans))

    def test_only_what_happens_from_now_on_is_sent(self):
        receiver = self.receiver()
        gate = self.agent()
        gate.touch()
        self.home.tapline("run", "--agent", "claude", "look around")
        server, address = self.home.serve("--otlp", receiver.url, OTEL_METRIC_EXPORT_INTERVAL="200")
        request = urllib.request.Request(f"http://{address}/api/v1/sessions", headers={"Authorization": f"Bearer {TOKEN}"})
        until("the old run is read", lambda: json.load(urllib.request.urlopen(request))["sessions"])
        self.agent("another-session")
        self.home.tapline("run", "--agent", "claude", "look around")
        until("the new run arrives", lambda: any(span.name == "session claude" for span in list(receiver.spans)))
        server.send_signal(signal.SIGTERM)
        server.communicate()
        sessions = [attributes(span)["gen_ai.conversation.id"] for span in receiver.spans if span.name == "session claude"]
        self.assertEqual(sessions, ["another-session"])
        check_spans(receiver.spans)

    def test_a_receiver_that_never_answers_holds_up_nobody(self):
        with socket.socket() as mute:
            mute.bind(("127.0.0.1", 0))
            mute.listen(64)
            server, address = self.home.serve("--otlp", "http://127.0.0.1:%d" % mute.getsockname()[1])
            ask = lambda path, body=None: urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", data=body, headers={"Authorization": f"Bearer {TOKEN}"})).read().decode()
            # More spans than may wait.
            calls = 10_000
            at = 0
            line = lambda text: json.dumps({"session_id": "many", **text}) + "\n"
            text = line({"type": "system", "subtype": "init", "model": "m", "cwd": "/p"})
            for call in range(calls):
                use = {"type": "tool_use", "id": f"toolu_{call}", "name": "Bash", "input": {}}
                text += line({"type": "assistant", "message": {"id": f"msg_{call}", "model": "m", "role": "assistant", "content": [use]}})
                done = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": "ok"}
                text += line({"type": "user", "message": {"role": "user", "content": [done]}})
            body = text.encode()
            while at < len(body):
                piece = body[at : at + (4 << 20)]
                request = urllib.request.Request(f"http://{address}/api/v1/ingest/many", data=piece, headers={"Authorization": f"Bearer {TOKEN}", "Tapline-Offset": str(at)})
                at = json.load(urllib.request.urlopen(request))["offset"]

            def counted(name):
                lines = [line for line in ask("/metrics").splitlines() if line.startswith(name)]
                return float(lines[0].split()[-1])

            until("spans are dropped, and counted", lambda: counted('tapline_otlp_spans_total{outcome="dropped"}') > 2_000)
            self.assertLessEqual(counted("tapline_otlp_waiting_spans"), 16_384)
            self.assertEqual(ask("/healthz"), "ok\n")
            self.assertIn('"many"', ask("/api/v1/sessions"))
            server.send_signal(signal.SIGTERM)
            _, told = server.communicate()
            self.assertEqual(server.returncode, 0)
            self.assertEqual(told.count("new ones are dropped"), 1, told)


if __name__ == "__main__":
    unittest.main()
