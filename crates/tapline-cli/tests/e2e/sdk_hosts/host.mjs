// A host of the official TypeScript SDK: one session with permissions, a hook, an in-process MCP tool, control requests
// and an interrupt.
//
//     node host.mjs CLI   (beside a node_modules with @anthropic-ai/claude-agent-sdk; the agent works in the current
//                         directory)
//
// Prints one JSON line per message of the SDK, per control answer and per callback. The callbacks of a tool call are
// printed just before the message with the call's result: that is the first place whose order does not depend on how
// the CLI's lines happen to be cut into chunks.
import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk';
import { PassThrough } from 'node:stream';
import { z } from 'zod';

const held = []; // lines of callbacks whose tool result was not seen yet
const show = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const control = async (name, answer) => show({ control: name, answer: (await answer) ?? null });

async function canUseTool(name, input, { signal, ...context }) {
  held.push({ permission: name, input, context });
  if (name === 'Write') return { behavior: 'deny', message: 'no writes today' };
  return { behavior: 'allow', updatedInput: input };
}

async function hook(input, toolUseID) {
  held.push({ hook: input.hook_event_name, tool_name: input.tool_name, tool_use_id: toolUseID });
  return {};
}

const add = tool('add', 'Add two numbers', { a: z.number(), b: z.number() }, async (args) => {
  held.push({ mcp_tool: 'add', arguments: args });
  return { content: [{ type: 'text', text: String(args.a + args.b) }] };
});

// What goes in here is sent to the agent; its end ends the session.
const prompts = new PassThrough({ objectMode: true });
const say = (content) => prompts.write({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null });

const session = query({
  prompt: prompts,
  options: {
    pathToClaudeCodeExecutable: process.argv[2],
    settingSources: [],
    includePartialMessages: true,
    canUseTool,
    hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [hook] }] },
    mcpServers: { calc: createSdkMcpServer({ name: 'calc', tools: [add] }) },
  },
});

await control('initialize', session.initializationResult());
let turn = 1;
let interrupted = false;
say('do it');
try {
  for await (const message of session) {
    if (message.type === 'user' || message.type === 'result') while (held.length) show(held.shift());
    show(message);
    if (turn === 2 && !interrupted && message.type === 'stream_event' && message.event.type === 'content_block_delta') {
      interrupted = true;
      await control('interrupt', session.interrupt());
    }
    if (message.type === 'result' && turn++ === 1) {
      await control('set_permission_mode', session.setPermissionMode('acceptEdits'));
      await control('set_model', session.setModel('claude-sonnet-5'));
      await control('mcp_status', session.mcpServerStatus());
      say('go slow');
    } else if (message.type === 'result') {
      prompts.end();
    }
  }
} catch (error) {
  // The CLI exits with 1 when its last result was an error, as that of an interrupted turn is; the SDK throws then.
  show({ error: error.message });
}
// The loop ended: the CLI closed its output and is gone.
show({ end: true });
