//! Exports of the real programs' sessions: the tables say what `stats` says, in every format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tapline_archive::export::{ColumnType, Export, ExportError, ExportFormat, ExportTable};
use tapline_archive::stats::{By, Query, Stats, stats};
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_recording::Redactor;
use tapline_testkit::{TempFolder, root};

fn index_of(paths: &[PathBuf]) -> Index {
    let mut index = Index::in_memory().unwrap();
    index.update(&Places::below(paths), &AtomicBool::new(false), |_| {}).unwrap();
    index
}

fn fixtures() -> Index {
    index_of(&[root().join("fixtures/transcripts")])
}

fn query(by: By) -> Query {
    let mut query = Query::default();
    query.by = by;
    query.zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(13));
    query
}

fn written(index: &Index, export: &Export<'_>, table: ExportTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    let rows = export.write(index, Prices::embedded(), &Selection::default(), [(table, &mut bytes)]).unwrap();
    assert_eq!(rows.len(), 1);
    bytes
}

fn as_json(index: &Index, query: &Query, table: ExportTable) -> Vec<Value> {
    let text = String::from_utf8(written(index, &Export::new(ExportFormat::Ndjson, query), table)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn counted(index: &Index, query: &Query) -> Stats {
    stats(index, Prices::embedded(), &Selection::default(), query).unwrap()
}

/// Sums of some columns of rows, by one column: tokens, and dollars to a billionth.
fn sums(rows: &[Value], key: &str, none: &str) -> BTreeMap<String, ([u64; 4], String)> {
    let mut sums: BTreeMap<String, ([u64; 4], String)> = BTreeMap::new();
    let mut costs: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows {
        let key = row[key].as_str().unwrap_or(none).to_owned();
        let sum = sums.entry(key.clone()).or_default();
        for (sum, column) in sum.0.iter_mut().zip(["input", "output", "cache_read", "cache_write"]) {
            *sum += row[column].as_u64().unwrap();
        }
        *costs.entry(key).or_default() += row["cost_usd"].as_f64().unwrap_or(0.0);
    }
    for (key, cost) in costs {
        sums.get_mut(&key).unwrap().1 = format!("{cost:.9}");
    }
    sums
}

fn of_stats(stats: &Stats) -> BTreeMap<String, ([u64; 4], String)> {
    let row = |row: &tapline_archive::stats::Row| {
        let totals = &row.totals;
        let tokens = [totals.input, totals.output, totals.cache_read, totals.cache_write];
        (row.key.clone(), (tokens, format!("{:.9}", totals.cost_usd.usd())))
    };
    stats.rows.iter().map(row).collect()
}

#[test]
fn the_tables_add_up_to_what_stats_says() {
    let index = fixtures();
    let export = query(By::Day);
    let (messages, costs) = (as_json(&index, &export, ExportTable::Messages), as_json(&index, &export, ExportTable::Costs));
    for (by, key, none, rows) in [
        (By::Day, "day", "", &messages),
        (By::Day, "day", "", &costs),
        (By::Model, "model", "(unknown)", &messages),
        (By::Project, "folder", "(unknown)", &costs),
        (By::Agent, "agent", "", &messages),
        (By::Subagent, "subagent", "(main)", &costs),
        (By::Tool, "tool", "", &costs),
        (By::Session, "session", "", &messages),
        (By::Session, "session", "", &as_json(&index, &export, ExportTable::Sessions)),
    ] {
        let told = of_stats(&counted(&index, &query(by)));
        // All fixtures are of one day, which is the next one in this zone.
        let expected = if by == By::Day { told.contains_key("2026-11-17") } else { told.len() > 1 };
        assert!(expected, "{by:?}: {told:?}");
        assert_eq!(sums(rows, key, none), told, "{by:?}");
    }
}

#[test]
fn sessions_and_calls_have_the_counts_of_stats() {
    let index = fixtures();
    let told = counted(&index, &query(By::Session));
    let sessions = as_json(&index, &query(By::Day), ExportTable::Sessions);
    assert_eq!(sessions.len() as u64, told.totals.sessions);
    for row in &sessions {
        let told = told.rows.iter().find(|told| row["session"] == told.key).unwrap();
        let (totals, about) = (&told.totals, told.about.as_ref().unwrap());
        for (column, number) in [
            ("requests", totals.requests),
            ("request_errors", totals.request_errors),
            ("unlisted", totals.unlisted),
            ("calls", totals.calls),
            ("call_errors", totals.call_errors),
            ("call_denials", totals.call_denials),
            ("web_searches", totals.web_searches),
            ("cost_unknown", totals.cost_unknown),
            ("prompts", about.prompts),
            ("busy_ms", about.busy_ms),
        ] {
            assert_eq!(row[column], number, "{column} of {}", told.key);
        }
        assert_eq!(row["title"].as_str().unwrap_or_default(), about.title);
        assert_eq!(row["exact"], totals.exact);
        assert!(Path::new(row["file"].as_str().unwrap()).is_file());
    }
    let calls = as_json(&index, &query(By::Day), ExportTable::Calls);
    let ended = |how: &str| calls.iter().filter(|call| call["ended"] == how).count() as u64;
    assert_eq!(calls.len() as u64, told.totals.calls);
    assert_eq!((ended("failed"), ended("denied")), (told.totals.call_errors, told.totals.call_denials));
    assert!(ended("failed") > 0 && ended("denied") > 0, "the fixtures have both");
    // Each is of a message that is there.
    let messages = as_json(&index, &query(By::Day), ExportTable::Messages);
    let made = |call: &Value| messages.iter().filter(|message| message["message"] == call["message"]).count();
    assert!(calls.iter().all(|call| made(call) == 1));
}

#[test]
fn a_filter_selects_what_it_selects_in_stats() {
    let index = fixtures();
    let mut only = query(By::Session);
    only.models = vec!["haiku".to_owned()];
    let told = counted(&index, &only);
    assert!(told.totals.requests > 0 && told.totals.requests < counted(&index, &query(By::Day)).totals.requests);
    assert_eq!(sums(&as_json(&index, &only, ExportTable::Sessions), "session", ""), of_stats(&told));
    assert_eq!(as_json(&index, &only, ExportTable::Messages).len() as u64, told.totals.requests);
    only.since = Some(u64::MAX);
    for table in ExportTable::ALL {
        assert_eq!(as_json(&index, &only, table), Vec::<Value>::new());
        let empty = written(&index, &Export::new(ExportFormat::Parquet, &only), table);
        let empty = opened(&empty);
        assert_eq!(empty.metadata().file_metadata().num_rows(), 0);
    }
}

fn opened(bytes: &[u8]) -> SerializedFileReader<File> {
    let dir = TempFolder::new();
    let path = dir.join("table.parquet");
    std::fs::write(&path, bytes).unwrap();
    // It can be read as long as it is open.
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// A field of Parquet, as the same in NDJSON.
fn plain(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => (*flag).into(),
        Field::Long(number) => (*number).into(),
        Field::Str(text) => text.clone().into(),
        Field::Date(days) => {
            jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().days(*days)).unwrap().to_string().into()
        }
        Field::TimestampMillis(millis) => format!("{:.3}", jiff::Timestamp::from_millisecond(*millis).unwrap()).into(),
        Field::Decimal(decimal) => {
            assert_eq!((decimal.precision(), decimal.scale()), (20, 12));
            let digits = decimal.data().iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
            let one = 1_000_000_000_000;
            format!("{}.{:012}", digits / one, digits % one).parse::<f64>().unwrap().into()
        }
        other => panic!("{other:?}"),
    }
}

fn is_close(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() < 1e-12,
        _ => one == other,
    }
}

#[test]
fn parquet_and_csv_say_what_ndjson_says() {
    let index = fixtures();
    let query = query(By::Day);
    for table in ExportTable::ALL {
        let told = as_json(&index, &query, table);
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        let file = written(&index, &Export::new(ExportFormat::Parquet, &query), table);
        let file = opened(&file);
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), told.len(), "{table:?}");
        for (row, told) in rows.iter().zip(&told) {
            assert_eq!(row.get_column_iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
            assert_eq!(told.as_object().unwrap().len(), names.len());
            for (name, field) in row.get_column_iter() {
                assert!(is_close(&plain(field), &told[name]), "{table:?}, {name}: {field:?} instead of {}", told[name]);
            }
        }
        let text = String::from_utf8(written(&index, &Export::new(ExportFormat::Csv, &query), table)).unwrap();
        let mut lines = csv(&text).into_iter();
        assert_eq!(lines.next().unwrap(), names);
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), told.len(), "{table:?}");
        for (line, told) in lines.iter().zip(&told) {
            for (field, column) in line.iter().zip(table.columns()) {
                let same = match (&told[column.name], column.holds) {
                    (Value::Null, _) => field.is_empty() && column.nullable,
                    (Value::String(text), _) => field == text,
                    (number, ColumnType::Money) => is_close(&field.parse::<f64>().unwrap().into(), number),
                    (other, _) => { other.to_string() }.eq(field),
                };
                assert!(same, "{table:?}, {}: {field} instead of {}", column.name, told[column.name]);
            }
        }
    }
}

/// Reads CSV as RFC 4180 says.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted && rest.peek() == Some(&'\n') => {
                rest.next();
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty(), "the last line is complete");
    rows
}

/// A session with this first prompt, in this folder.
fn session(prompt: &str, folder: &str) -> (TempFolder, Index) {
    let dir = TempFolder::new();
    let common = format!(r#""sessionId":"s-1","cwd":{},"version":"2.1.0","gitBranch":"main""#, Value::from(folder));
    let user = format!(
        r#"{{"type":"user",{common},"timestamp":"2026-11-16T10:00:00.000Z","uuid":"u1","message":{{"role":"user","content":{}}}}}"#,
        Value::from(prompt)
    );
    let answer = format!(
        r#"{{"type":"assistant",{common},"timestamp":"2026-11-16T10:00:01.000Z","uuid":"u2","requestId":"r","message":{{"id":"m","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5}}}}}}"#
    );
    std::fs::write(dir.join("s-1.jsonl"), format!("{user}\n{answer}\n")).unwrap();
    let index = index_of(&[dir.to_owned()]);
    (dir, index)
}

#[test]
fn a_formula_in_csv_is_a_text_and_quotes_are_doubled() {
    let query = Query::default();
    for (title, field) in [
        ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
        ("-1+2", "'-1+2"),
        ("@sum", "'@sum"),
        ("say \"hi\"", "\"say \"\"hi\"\"\""),
    ] {
        let (_dir, index) = session(title, "/w");
        let text = String::from_utf8(written(&index, &Export::new(ExportFormat::Csv, &query), ExportTable::Sessions)).unwrap();
        assert!(text.contains(&format!(",{field},/w,")), "{text}");
        assert_eq!(as_json(&index, &query, ExportTable::Sessions)[0]["title"], title);
    }
}

#[test]
fn with_a_redactor_no_table_has_a_key_not_even_a_part_of_one() {
    let key = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOp-QrStUvAA";
    let long = format!("{} {key} is the key", "word ".repeat(25));
    let query = Query::default();
    let redactor = Redactor::default();
    for prompt in [format!("use {key} please"), long] {
        let (_dir, index) = session(&prompt, &format!("/home/me/{key}"));
        for format in [ExportFormat::Parquet, ExportFormat::Csv, ExportFormat::Ndjson] {
            for table in ExportTable::ALL {
                let open = written(&index, &Export::new(format, &query), table);
                let closed = written(&index, &Export::new(format, &query).redacted(&redactor), table);
                let has = |bytes: &[u8], part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
                if format != ExportFormat::Parquet && table != ExportTable::Calls {
                    assert!(has(&open, "sk-ant-api03-AbCd"), "{table:?}: the key is in the table without a redactor");
                    assert!(has(&closed, "/home/me/"), "{table:?}: the rest of the text stays");
                }
                assert!(!has(&closed, "AbCdEfGh") && !has(&closed, "sk-ant"), "{table:?} {format:?}");
            }
        }
    }
}

#[test]
fn a_writer_that_fails_is_named_with_its_table() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    let index = fixtures();
    let query = Query::default();
    for format in [ExportFormat::Parquet, ExportFormat::Csv, ExportFormat::Ndjson] {
        let failed =
            Export::new(format, &query).write(&index, Prices::embedded(), &Selection::default(), [(ExportTable::Costs, Full)]);
        let Err(ExportError::Write { table: ExportTable::Costs, error }) = failed else { panic!("{failed:?}") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{format:?}");
    }
}

#[test]
fn the_page_has_every_column() {
    let page = std::fs::read_to_string(root().join("docs/EXPORT.md")).unwrap();
    for table in ExportTable::ALL {
        let part = page.split(&format!("\n## {}\n", table.name())).nth(1).unwrap().split("\n## ").next().unwrap();
        let told: Vec<String> = part.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        let told: Vec<String> = told.iter().map(|line| line.split(" | ").take(2).collect::<Vec<_>>().join(" | ")).collect();
        let mine = table
            .columns()
            .iter()
            .map(|column| format!("| `{}` | {}{}", column.name, column.holds, if column.nullable { "?" } else { "" }));
        assert_eq!(told, mine.collect::<Vec<_>>(), "{table:?}");
    }
}

#[test]
fn the_file_of_a_session_is_its_own() {
    let folder = TempFolder::new();
    let line = |more: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"s-own","cwd":"/w","timestamp":"2026-11-14T10:00:00.000Z","uuid":"u{id}"{more},"message":{{"id":"m{id}","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5}}}}}}
"#
        )
    };
    std::fs::create_dir_all(folder.join("a/subagents")).unwrap();
    std::fs::create_dir(folder.join("b")).unwrap();
    std::fs::write(folder.join("a/subagents/agent-1.jsonl"), line(r#","isSidechain":true,"agentId":"1""#, "1")).unwrap();
    std::fs::write(folder.join("b/s-own.jsonl"), line("", "2")).unwrap();
    let index = index_of(&[folder.to_owned()]);
    let rows = as_json(&index, &query(By::Day), ExportTable::Sessions);
    let told: Vec<_> = rows.iter().map(|row| (row["session"].as_str(), row["file"].as_str(), row["files"].as_u64())).collect();
    assert_eq!(told, [(Some("s-own"), folder.join("b/s-own.jsonl").to_str(), Some(2))]);
}
