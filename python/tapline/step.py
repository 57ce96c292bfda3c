"""The kinds of step. Each is a class with typed attributes, made for `match`:

    match step:
        case tapline.step.Text(text): ...
        case tapline.step.Call(name="Bash", title=title): ...
        case tapline.step.Answer(status="error", text=text): ...

docs/STEPS.md describes them. New kinds may be added; a step of a kind that this version does not know is a plain `Step`.
"""

from ._native import (
    Answer,
    Call,
    Denied,
    Error,
    Hook,
    Item,
    Notice,
    Odd,
    Orphan,
    Partial,
    Progress,
    Prompt,
    Question,
    Quiet,
    RateLimit,
    Retracted,
    Retry,
    ServerAnswer,
    ServerCall,
    Session,
    Step,
    Task,
    Text,
    Thinking,
    Turn,
)

__all__ = [
    "Answer",
    "Call",
    "Denied",
    "Error",
    "Hook",
    "Item",
    "Notice",
    "Odd",
    "Orphan",
    "Partial",
    "Progress",
    "Prompt",
    "Question",
    "Quiet",
    "RateLimit",
    "Retracted",
    "Retry",
    "ServerAnswer",
    "ServerCall",
    "Session",
    "Step",
    "Task",
    "Text",
    "Thinking",
    "Turn",
]
