//! Everything on record about the wire is known to the code, and the code knows nothing that no fixture shows.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use tapline_protocol::claude::content::{Block, Content};
use tapline_protocol::claude::control::*;
use tapline_protocol::claude::partial::Partial;
use tapline_protocol::claude::{self, NOTICES};
use tapline_protocol::codex::{self, ITEM_KINDS};
use tapline_protocol::{Decoder, Event, Input, InputFormat, InputShape, LineKind, Read, Record, WireShape};

use crate::fixtures;

/// The content blocks that the catalogue names.
const BLOCKS: &[&str] = &[
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "image",
    "document",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "advisor_tool_result",
    "container_upload",
    "search_result",
    "tool_reference",
    "compaction",
    "fallback",
];

/// The events of the Messages API's stream.
const PARTIALS: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
];

fn all_records() -> impl Iterator<Item = (String, Record)> {
    fixtures::all().into_iter().flat_map(|fixture| {
        fixture.records().into_iter().map(move |record| (format!("{}:{}", fixture.name, record.line), record))
    })
}

fn control_records() -> Vec<Record> {
    fixtures::all().into_iter().find(|fixture| fixture.name == "events/control.jsonl").unwrap().records()
}

fn json(text: impl AsRef<str>) -> Value {
    serde_json::from_str(text.as_ref()).unwrap()
}

fn written(value: &impl Serialize) -> Value {
    json(serde_json::to_string(value).unwrap())
}

/// The `type` of each object found at `pointer`, in the objects or in lists of them.
fn kinds_at(pointer: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for (_, record) in all_records() {
        // What serde_json cannot read (half an emoji) shows no kind of its own.
        let Ok(line) = serde_json::from_str::<Value>(&record.text()) else { continue };
        let found = line.pointer(pointer).cloned().unwrap_or_default();
        let items = found.as_array().cloned().unwrap_or_else(|| vec![found]);
        kinds.extend(items.iter().filter_map(|item| item["type"].as_str()).map(str::to_owned));
    }
    kinds
}

fn assert_shown(names: &[&str], shown: &BTreeSet<String>) {
    let missing: Vec<_> = names.iter().filter(|name| !shown.contains(**name)).collect();
    assert!(missing.is_empty(), "no fixture shows {missing:?}");
}

#[test]
fn no_event_is_unknown_or_invalid() {
    for (place, record) in all_records() {
        let odd = matches!(record.event, Event::Unknown { .. } | Event::Invalid { .. });
        assert!(!odd && record.event.line_kind() == LineKind::Object, "{place}: {:?}", record.event);
    }
}

#[test]
fn an_untyped_document_is_known_where_it_is_the_whole_input() {
    let untyped: Vec<_> = all_records().filter(|(_, record)| record.event == Event::Untyped).collect();
    assert_eq!(untyped.len(), 2);
    for (place, record) in untyped {
        let mut input = Input::open(record.bytes.as_slice(), InputFormat::Auto, Decoder::default()).unwrap();
        assert_eq!(input.shape(), InputShape::Document, "{place}");
        assert!(matches!(input.next().unwrap().unwrap().event, Event::Claude(claude::Event::Document(_))), "{place}");
    }
}

#[test]
fn no_key_is_unknown() {
    for (place, record) in all_records() {
        assert_eq!(record.unknown_keys(), Vec::<String>::new(), "{place}");
    }
}

#[test]
fn every_tag_and_every_notice_is_shown() {
    let shown: BTreeSet<String> = all_records().filter_map(|(_, record)| record.tag()).collect();
    assert_shown(claude::Event::TAGS, &shown);
    assert_shown(codex::Event::TAGS, &shown);
    let notices: Vec<_> = NOTICES.iter().map(|name| format!("system/{name}")).collect();
    assert_shown(&notices.iter().map(String::as_str).collect::<Vec<_>>(), &shown);
}

#[test]
fn every_block_partial_and_item_is_shown() {
    assert_shown(BLOCKS, &kinds_at("/message/content"));
    assert_shown(PARTIALS, &kinds_at("/event"));
    assert_shown(ITEM_KINDS, &kinds_at("/item"));
}

#[test]
fn every_block_and_partial_is_known() {
    fn assert_known(place: &str, content: &Content) {
        for block in content.blocks() {
            match block {
                Block::Other(other) => assert!(other.known, "{place}: {other:?}"),
                Block::NotObject(json) => panic!("{place}: {json}"),
                Block::ToolResult(result) => assert_known(place, &result.content),
                _ => {}
            }
        }
    }
    for (place, record) in all_records() {
        match &record.event {
            Event::Claude(claude::Event::Assistant(event)) => assert_known(&place, event.body()),
            Event::Claude(claude::Event::User(event)) => assert_known(&place, event.body()),
            Event::Claude(claude::Event::StreamEvent(event)) => match &event.event {
                Partial::Other(kind) => assert!(matches!(kind.as_deref(), Some("ping" | "error")), "{place}: {kind:?}"),
                partial => assert_ne!(partial, &Partial::Absent, "{place}"),
            },
            _ => {}
        }
    }
}

#[test]
fn every_control_request_is_typed_and_written_as_it_came() {
    let mut shown = BTreeSet::new();
    for (place, record) in all_records() {
        let Event::Claude(claude::Event::ControlRequest(frame)) = &record.event else { continue };
        let request = frame.request.as_ref().unwrap();
        assert!(!matches!(request, Request::Other(..)), "{place}: {}", request.subtype());
        shown.insert(request.subtype().to_owned());
        let came = json(record.text());
        assert_eq!(written(request), came["request"], "{place}");
        assert_eq!(written(frame)["request_id"], came["request_id"], "{place}");
    }
    assert_shown(Request::SUBTYPES, &shown);
}

#[test]
fn every_reply_is_read_whole() {
    fn check<T: WireShape + Serialize>(response: &Response) {
        let payload = json(response.response.as_ref().unwrap().as_str());
        let keys = payload.as_object().unwrap().keys();
        assert_eq!(keys.filter(|key| !T::KEYS.contains(&key.as_str())).collect::<Vec<_>>(), Vec::<&String>::new());
        let reply = written(&response.payload::<T>().unwrap());
        for (key, value) in reply.as_object().unwrap() {
            assert_eq!(value, &payload[key], "{key}");
        }
    }
    let records = control_records();
    let response_to = |subtype: &str| {
        let asked = |record: &Record| match &record.event {
            Event::Claude(claude::Event::ControlRequest(frame)) if frame.request.as_ref()?.subtype() == subtype => {
                frame.request_id.clone()
            }
            _ => None,
        };
        let id = records.iter().find_map(asked).unwrap();
        let answered = |record: &Record| match &record.event {
            Event::Claude(claude::Event::ControlResponse(frame)) => {
                frame.response.clone().filter(|it| it.request_id.as_ref() == Some(&id))
            }
            _ => None,
        };
        records.iter().find_map(answered).unwrap()
    };
    check::<InitializeReply>(&response_to("initialize"));
    check::<PermissionReply>(&response_to("can_use_tool"));
    check::<HookReply>(&response_to("hook_callback"));
    check::<McpMessageReply>(&response_to("mcp_message"));
    check::<InterruptReply>(&response_to("interrupt"));
    check::<ContextUsage>(&response_to("get_context_usage"));
    check::<UsageReply>(&response_to("get_usage"));
    check::<SessionCost>(&response_to("get_session_cost"));
    check::<BinaryVersion>(&response_to("get_binary_version"));
    check::<Models>(&response_to("list_models"));
    check::<Settings>(&response_to("get_settings"));
    check::<McpStatusReply>(&response_to("mcp_status"));
    check::<PermissionRules>(&response_to("list_permission_rules"));
    check::<HooksListing>(&response_to("get_hooks_listing"));
    check::<TaskOutput>(&response_to("get_task_output"));
    check::<Rewound>(&response_to("rewind_files"));
    check::<FileContents>(&response_to("read_file"));
}

#[test]
fn a_permission_suggestion_is_read_whole() {
    for (place, record) in all_records() {
        let Event::Claude(claude::Event::ControlRequest(frame)) = &record.event else { continue };
        let Some(Request::CanUseTool(request)) = &frame.request else { continue };
        for suggestion in &request.permission_suggestions {
            let update = suggestion.with(PermissionUpdate::read).flatten().unwrap();
            assert_eq!(written(&update), json(suggestion.as_str()), "{place}");
        }
    }
}
