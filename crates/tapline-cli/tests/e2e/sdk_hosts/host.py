#!/usr/bin/env python3
"""A host of the official Python SDK: one session with permissions, a hook, an in-process MCP tool, control requests
and an interrupt.

    host.py CLI         (needs claude-agent-sdk; the agent works in the current directory)

Prints one JSON line per message of the SDK, per control answer and per callback. The callbacks of a tool call are
printed just before the message with the call's result: they run on other tasks than the reader of the messages, so
that is the first place whose order does not depend on how the CLI's lines happen to be cut into chunks.
"""
import asyncio
import dataclasses
import json
import sys

from claude_agent_sdk import (
    ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, PermissionResultAllow, PermissionResultDeny, ResultMessage,
    StreamEvent, UserMessage, create_sdk_mcp_server, tool,
)

held = []  # lines of callbacks whose tool result was not seen yet


def plain(value):
    """Any value of the SDK as JSON; a dataclass becomes an object with its class name."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def show(line):
    print(json.dumps(plain(line)), flush=True)


async def permission(name, input, context):
    held.append({"permission": name, "input": input, "context": context})
    if name == "Write":
        return PermissionResultDeny(message="no writes today")
    return PermissionResultAllow(updated_input=input)


async def hook(input, tool_use_id, context):
    held.append({"hook": input["hook_event_name"], "tool_name": input["tool_name"], "tool_use_id": tool_use_id})
    return {}


@tool("add", "Add two numbers", {"a": float, "b": float})
async def add(args):
    held.append({"mcp_tool": "add", "arguments": args})
    return {"content": [{"type": "text", "text": f"{args['a'] + args['b']:g}"}]}


async def turn(client, messages, prompt, interrupt=False):
    """Sends a prompt and shows all up to its result; interrupts, if asked to, on the first piece of text."""
    await client.query(prompt)
    async for message in messages:
        if isinstance(message, (UserMessage, ResultMessage)):
            while held:
                show(held.pop(0))
        show(message)
        if interrupt and isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
            interrupt = False
            show({"control": "interrupt", "answer": await client.interrupt()})
        if isinstance(message, ResultMessage):
            return


async def main():
    options = ClaudeAgentOptions(
        cli_path=sys.argv[1],
        setting_sources=[],
        include_partial_messages=True,
        can_use_tool=permission,
        hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[hook])]},
        mcp_servers={"calc": create_sdk_mcp_server("calc", tools=[add])},
    )
    async with ClaudeSDKClient(options) as client:
        show({"control": "initialize", "answer": await client.get_server_info()})
        messages = client.receive_messages()
        await turn(client, messages, "do it")
        show({"control": "set_permission_mode", "answer": await client.set_permission_mode("acceptEdits")})
        show({"control": "set_model", "answer": await client.set_model("claude-sonnet-5")})
        show({"control": "mcp_status", "answer": await client.get_mcp_status()})
        await turn(client, messages, "go slow", interrupt=True)
    # Leaving the block closed the CLI's standard input and waited for its end.
    show({"end": True})


asyncio.run(main())
