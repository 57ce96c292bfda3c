"""Run, drive and read headless coding agents (`claude -p`, `codex exec`).

Reading a stream:      `read`, `steps`, `report`; one line: `extract_text`, `extract_tool_uses`, ...
Running an agent:      `run` waits for the report; `async with start(...)` follows it.
Driving an agent:      `Session`: turns, permissions, hooks, tools; `Conversation`: one run per turn, for any agent.
Testing without cost:  `tapline.testing`, and the pytest fixtures `tapline_sim` and `tapline_replay`.

>>> report = tapline.run("What does this project do?", timeout=300)
>>> report.answer, report.verdict.outcome, report.cost_usd
"""

import atexit

from . import _native, step
from ._answers import (
    Allow,
    Answers,
    CanUseTool,
    Deny,
    HookFunction,
    HookMatcher,
    PermissionAnswer,
    PermissionContext,
    Tool,
    ToolServer,
    tool,
)
from ._conversation import Conversation, ConversationTurn
from ._native import VERSION as __version__
from ._native import (
    Record,
    Step,
    extract_session_id,
    extract_text,
    extract_tool_result_content,
    extract_tool_results,
    extract_tool_uses,
)
from ._options import Options
from ._read import Source, read, report, steps, tool_summary
from ._report import (
    Exit,
    HookRun,
    Ledger,
    LineCounts,
    ModelTotals,
    OrphanResult,
    PartialTexts,
    Report,
    RetryAdvice,
    RetryAttempt,
    RunInfo,
    SessionInfo,
    SessionTotals,
    StreamInfo,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    Tools,
    TurnResult,
    Verdict,
    Warning,
)
from ._run import Run, run, start
from ._session import Message, RunningTurn, Session, SessionError, TurnReport

__all__ = [
    "Allow",
    "Answers",
    "CanUseTool",
    "Conversation",
    "ConversationTurn",
    "Deny",
    "Exit",
    "HookFunction",
    "HookMatcher",
    "HookRun",
    "Ledger",
    "LineCounts",
    "Message",
    "ModelTotals",
    "Options",
    "OrphanResult",
    "PartialTexts",
    "PermissionAnswer",
    "PermissionContext",
    "Record",
    "Report",
    "RetryAdvice",
    "RetryAttempt",
    "Run",
    "RunInfo",
    "RunningTurn",
    "Session",
    "SessionError",
    "SessionInfo",
    "SessionTotals",
    "Source",
    "Step",
    "StreamInfo",
    "Task",
    "Tokens",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolServer",
    "Tools",
    "TurnReport",
    "TurnResult",
    "Verdict",
    "Warning",
    "__version__",
    "extract_session_id",
    "extract_text",
    "extract_tool_result_content",
    "extract_tool_results",
    "extract_tool_uses",
    "read",
    "report",
    "run",
    "start",
    "step",
    "steps",
    "tool",
    "tool_summary",
]

# An interpreter that exits in the middle of a run leaves no process behind.
atexit.register(_native.shut_down)
