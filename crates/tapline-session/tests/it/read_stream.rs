//! What becomes of a stream: its records, steps and report, and what a renderer shows of it. Shared by the tests here.

use tapline_protocol::{Agent, Decoder, Input, InputFormat, Record};
use tapline_session::render::{Hints, RenderAs, Style, TerminalOptions, Times};
use tapline_session::{Collector, Ending, Fold, Report, Run, Step, StreamFormat, Summary};

/// A view as a log has it.
pub(crate) const PLAIN: TerminalOptions = TerminalOptions {
    style: Style::plain(),
    width: None,
    rows: 24,
    live: false,
    thinking: false,
    partial: false,
    full: false,
    times: Times::Hidden,
    hints: Hints { warnings: "", answer: "", prompts: "", earlier_run: "" },
};

/// A stream that has been read: its records, its steps and the report.
pub(crate) struct ReadStream {
    pub(crate) records: Vec<Record>,
    pub(crate) steps: Vec<Vec<Step>>,
    pub(crate) summary: Summary,
    pub(crate) report: Report,
}

/// Reads a stream in chunks of this size.
pub(crate) fn tell(bytes: &[u8], chunk: usize, format: InputFormat, agent: Option<Agent>, ending: &Ending) -> ReadStream {
    let source = std::io::BufReader::with_capacity(chunk, bytes);
    let mut input = Input::open(source, format, Decoder::default().for_agent(agent)).unwrap();
    let (mut fold, mut collector) = (Fold::for_agent(agent), Collector::default());
    let (mut records, mut steps) = (Vec::new(), Vec::new());
    for record in &mut input {
        let record = record.unwrap();
        let told = fold.apply(&record);
        for step in &told {
            collector.accept(step);
        }
        records.push(record);
        steps.push(told);
    }
    let summary = fold.finish(ending);
    let format = StreamFormat::of(input.shape(), summary.agent);
    let report = collector.report(summary.clone(), format, Run::default(), ending);
    ReadStream { records, steps, summary, report }
}

/// Reads a stream of which nothing else is known.
pub(crate) fn tell_plainly(bytes: &[u8]) -> ReadStream {
    tell(bytes, 1 << 16, InputFormat::Auto, None, &Ending::default())
}

/// A stream as a renderer shows it.
pub(crate) fn show(told: &ReadStream, format: RenderAs) -> String {
    let mut renderer = format.renderer();
    let mut out = String::new();
    for step in told.steps.iter().flatten() {
        out += &renderer.step(step);
    }
    out + &renderer.finish(&told.summary)
}

/// What a terminal shows in the end. It knows the moves that a view makes.
pub(crate) fn screen(written: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' => lines.push(String::new()),
            '\r' => assert_eq!(lines.last().map(String::as_str), Some(""), "moves only from an empty line"),
            '\u{1b}' => {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                if let Some(rows) = rest[..=end].strip_prefix('[').and_then(|code| code.strip_suffix('A')) {
                    lines.truncate(lines.len() - rows.parse::<usize>().unwrap());
                    *lines.last_mut().unwrap() = String::new();
                }
                rest = &rest[end + 1..];
            }
            c => lines.last_mut().unwrap().push(c),
        }
    }
    lines
}
