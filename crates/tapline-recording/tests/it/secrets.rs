//! Whether what looks like a secret is found, wherever it stands, and what only looks like one is left alone. The texts are in
//! secrets/, without values: these are made up here, so that no scanner takes the files for a leak.

use tapline_recording::{REDACTED, Redactor};

/// Those written while the redaction was made, those by somebody who had not read it, and what tools print.
const SHAPES: [&str; 3] =
    [include_str!("secrets/shapes.txt"), include_str!("secrets/shapes_blind.txt"), include_str!("secrets/shapes_tools.txt")];
const NAMES: &str = concat!(include_str!("secrets/names.txt"), include_str!("secrets/names_blind.txt"));
const PLACEMENTS: &str = concat!(include_str!("secrets/placements.txt"), include_str!("secrets/placements_blind.txt"));
const INNOCENTS: [&str; 3] = [
    include_str!("secrets/innocents.txt"),
    include_str!("secrets/innocents_blind.txt"),
    include_str!("secrets/innocents_tools.txt"),
];

/// Makes up values: always the same ones.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn run(&mut self, class: char, length: usize) -> String {
        let (lower, upper, digits) = ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789");
        let letters = match class {
            'a' => lower.to_owned(),
            'U' => upper.to_owned(),
            'A' => [lower, upper, digits].concat(),
            'l' => [lower, digits].concat(),
            'X' => [upper, digits].concat(),
            'h' => [digits, "abcdef"].concat(),
            'H' => [digits, "ABCDEF"].concat(),
            'd' => digits.to_owned(),
            'b' => [lower, upper, digits, "+/"].concat(),
            'u' => [lower, upper, digits, "-_"].concat(),
            '5' => [upper, "234567"].concat(),
            '8' => "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".to_owned(),
            'c' => "qpzry9x8gf2tvdw0s3jn54khce6mua7l".to_owned(),
            'C' => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".to_owned(),
            other => panic!("no class {other}"),
        };
        let letters: Vec<char> = letters.chars().collect();
        // The first and the last are letters or digits, as in nearly every real one.
        let plain: Vec<char> = letters.iter().copied().filter(char::is_ascii_alphanumeric).collect();
        (0..length)
            .map(|at| {
                let from = if at == 0 || at + 1 == length { &plain } else { &letters };
                from[self.throw(from.len())]
            })
            .collect()
    }

    /// The text of a template, and of each secret in it what must not be seen: its made-up parts, or all of it.
    fn fill(&mut self, template: &str) -> (String, Vec<String>) {
        let template = template.replace('␤', "\n").replace('␉', "\t").replace('␛', "\u{1b}");
        let (mut text, mut secrets, mut runs, mut start) = (String::new(), Vec::new(), Vec::new(), None);
        let mut rest = template.as_str();
        while let Some(c) = rest.chars().next() {
            let piece = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).and_then(|(piece, rest)| {
                let class = piece.chars().next()?;
                let length: usize = piece[class.len_utf8()..].parse().ok()?;
                Some((class, length, rest))
            });
            rest = &rest[c.len_utf8()..];
            match (c, piece) {
                (_, Some((class, length, behind))) => {
                    let run = self.run(class, length);
                    text += &run;
                    runs.push(run);
                    rest = behind;
                }
                ('«', _) => (start, runs) = (Some(text.len()), Vec::new()),
                ('»', _) => {
                    let whole = text[start.take().unwrap()..].to_owned();
                    let long: Vec<String> = runs.drain(..).filter(|run| run.len() >= 8).collect();
                    secrets.extend(if long.is_empty() { vec![whole] } else { long });
                }
                _ => text.push(c),
            }
        }
        (text, secrets)
    }
}

/// Eight characters of a secret in a row are enough to say that it survived.
fn survives(output: &str, secrets: &[String]) -> bool {
    secrets.iter().any(|secret| {
        let bytes = secret.as_bytes();
        bytes.windows(bytes.len().min(8)).any(|part| output.contains(std::str::from_utf8(part).unwrap()))
    })
}

fn text(text: &str) -> String {
    Redactor::default().text(text).into_owned()
}

/// One line of a stream; it stays JSON.
fn line(json: &serde_json::Value) -> String {
    let line = Redactor::default().line(json.to_string().as_bytes()).into_owned();
    let _: serde_json::Value = serde_json::from_slice(&line).unwrap();
    String::from_utf8(line).unwrap()
}

fn entries(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with("# ") && !line.starts_with("## "))
}

/// Of `all` at most `percent` in a hundred; the message shows the others.
fn at_most(percent: usize, all: usize, bad: &[String]) {
    let shown = bad.join("\n");
    assert!(bad.len() * 100 <= all * percent, "{} of {all}:\n{shown}", bad.len());
}

#[test]
fn shapes_of_secrets_do_not_survive() {
    SHAPES.into_iter().for_each(no_shape_survives);
}

fn no_shape_survives(shapes: &str) {
    let mut dice = Dice(27);
    let (mut all, mut bad) = (0, Vec::new());
    for template in entries(shapes) {
        let (plain, secrets) = dice.fill(template);
        assert!(!secrets.is_empty(), "{template}");
        all += 1;
        let json = line(&serde_json::json!({ "type": "user", "message": { "content": [{ "type": "text", "text": plain }] } }));
        for output in [text(&plain), json] {
            if survives(&output, &secrets) {
                bad.push(format!("{template}\n    {output}"));
                break;
            }
        }
    }
    at_most(3, all, &bad);
}

/// The name in another style.
fn styled(name: &str, separator: char, upper: bool) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            out.push(separator);
        }
        before = c;
        match c {
            '_' | '-' | '.' => out.push(separator),
            _ if upper => out.push(c.to_ascii_uppercase()),
            _ => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

#[test]
fn values_behind_a_name_do_not_survive_wherever_they_stand() {
    let mut dice = Dice(28);
    let (mut all, mut bad) = (0, Vec::new());
    for (row, name) in entries(NAMES).enumerate() {
        for (column, place) in entries(PLACEMENTS).enumerate() {
            let kind = ["«{A16}»", "«{h32}»", "«Tr0ub4dor-{A8}»", "«{u40}»"][(row + column) % 4];
            let identifier = if name.contains(['.', '-']) { styled(name, '_', false) } else { name.to_owned() };
            let template = place
                .replace("@E", &styled(name, '_', true))
                .replace("@K", &styled(name, '-', false))
                .replace("@I", &identifier)
                .replace("@@", "\u{1}")
                .replace('@', name)
                .replace('\u{1}', "@@");
            // The marks for values stand alone: no word holds them.
            let mut marked = String::new();
            let mut before = ' ';
            let mut rest = template.chars().peekable();
            while let Some(c) = rest.next() {
                let alone = !before.is_alphanumeric() && before != '_' || (before == 'n' && marked.ends_with("\\n"));
                match c {
                    'V' | 'W' if alone && !rest.peek().is_some_and(|c| c.is_alphanumeric() || *c == '_') => marked += kind,
                    _ => marked.push(c),
                }
                before = c;
            }
            let (plain, secrets) = dice.fill(&marked);
            assert!(!secrets.is_empty(), "{place}");
            all += 1;
            let json = line(&serde_json::json!({ "type": "user", "tool_use_result": { "stdout": plain } }));
            let mut outputs = vec![text(&plain), json];
            // What is JSON itself also stands in a line as such.
            if let Ok(value @ serde_json::Value::Object(_)) = serde_json::from_str(&plain) {
                outputs.push(line(&serde_json::json!({ "type": "x", "input": value })));
            }
            if let Some(output) = outputs.iter().find(|output| survives(output, &secrets)) {
                bad.push(format!("{marked}\n    {output}"));
            }
        }
    }
    at_most(3, all, &bad);
}

/// One text, cut into lines, in all the ways that tools tell of lines.
fn carried(lines: &[&str], seen: &[&str]) -> Vec<(&'static str, serde_json::Value)> {
    use serde_json::json;
    let with = |prefix: &str| -> Vec<String> { seen.iter().map(|line| format!("{prefix}{line}")).collect() };
    let numbered = |lines: &[&str], form: fn(usize, &str) -> String| -> Vec<String> {
        lines.iter().enumerate().map(|(at, line)| form(at + 9, line)).collect()
    };
    let (half, last) = (seen.len() / 2, seen.last().copied().unwrap_or_default());
    let mut mixed = with(" ");
    mixed[..half].clone_from_slice(&with("-")[..half]);
    let ended: Vec<String> = seen.iter().map(|line| format!("{line}\n")).collect();
    let patch =
        |lines: Vec<String>| json!({ "structuredPatch": [{ "oldStart": 1, "newLines": 9, "lines": lines }], "a": last.len() });
    let whole = |lines: Vec<String>| json!({ "type": "tool_result", "content": lines.join("\n") });
    vec![
        ("kept in a patch", patch(with(" "))),
        ("added in a patch", patch(with("+"))),
        ("removed in a patch", patch(with("-"))),
        ("half removed in a patch", patch(mixed.clone())),
        ("a list", json!({ "lines": with("") })),
        ("a list of lists", json!({ "a": [[1, "x"], with("")] })),
        ("a list under another name", json!({ "output": { "content": with("") } })),
        ("lines with their ends", json!({ "source": ended })),
        ("a list of numbered lines", json!({ "lines": numbered(seen, |at, line| format!("{at}: {line}")) })),
        ("a list of found lines", json!({ "matches": numbered(seen, |at, line| format!("src/a.yaml:{at}:{line}")) })),
        (
            "a list of lines found far down",
            json!({ "matches": with(&format!("{}/server.pem:12:", "crates/deep/tests".repeat(5))) }),
        ),
        ("coloured lines", json!({ "lines": with("\u{1b}[32m+\u{1b}[m") })),
        ("JSON in a string", json!({ "text": json!({ "lines": with("+") }).to_string() })),
        ("numbers and tabs", whole(numbered(lines, |at, line| format!("{at:>6}\t{line}")))),
        ("numbers and arrows", whole(numbered(lines, |at, line| format!("{at:>5}→{line}")))),
        ("numbers and bars", whole(numbered(lines, |at, line| format!("{at:>4} | {line}")))),
        ("search with names", whole(numbered(lines, |at, line| format!("src/a.yaml:{at}:{line}")))),
        ("search around", whole(numbered(lines, |at, line| format!("src/a.yaml-{at}-{line}")))),
        ("search with numbers", whole(numbered(lines, |at, line| format!("{at}:{line}")))),
        ("a diff", whole([vec!["@@ -1,9 +1,9 @@".to_owned()], with("+")].concat())),
        ("a diff around", whole([vec!["@@ -1,9 +1,9 @@".to_owned()], mixed].concat())),
        ("a quotation", whole(lines.iter().map(|line| format!("> {line}")).collect())),
        ("a comment", whole(lines.iter().map(|line| format!("# {line}")).collect())),
        ("as it is", whole(lines.iter().map(|&line| line.to_owned()).collect())),
    ]
}

#[test]
fn lists_of_lines_are_judged_as_the_text_they_are() {
    let mut dice = Dice(29);
    let (mut all, mut bad) = (0, Vec::new());
    let file: String = include_str!("secrets/lists.txt").lines().skip(2).flat_map(|line| [line, "\n"]).collect();
    for case in file.split("==\n") {
        let (name, case) = case.split_once('\n').unwrap();
        let (filled, secrets) = dice.fill(case);
        let lines: Vec<&str> = filled.lines().collect();
        let hidden = lines.iter().position(|line| *line == "--");
        let seen = hidden.map_or(lines.as_slice(), |at| &lines[at + 1..]);
        let whole: Vec<&str> = lines.iter().copied().filter(|line| *line != "--").collect();
        for (carrier, json) in carried(&whole, seen) {
            all += 1;
            let output = line(&json);
            if survives(&output, &secrets) {
                bad.push(format!("{name}, {carrier}\n    {output}"));
            }
        }
    }
    at_most(3, all, &bad);
}

#[test]
fn lines_of_a_key_are_hidden_behind_paths_of_any_length() {
    let mut dice = Dice(32);
    for length in [7, 45, 100, 190].repeat(20) {
        let name = format!("{}/a.pem:12:", "crates/tests/".repeat(16));
        let keys: Vec<String> = (0..5).map(|_| dice.run('b', 64)).collect();
        let lines: Vec<String> = keys.iter().map(|key| format!("{}{key}", &name[name.len() - length..])).collect();
        let output = line(&serde_json::json!({ "lines": lines }));
        assert!(!survives(&output, &keys), "{length}: {output}");
    }
}

#[test]
fn colours_hide_nothing() {
    let mut dice = Dice(30);
    let (mut all, mut bad) = (0, Vec::new());
    for template in entries(include_str!("secrets/colours.txt")) {
        let (plain, secrets) = dice.fill(template);
        assert!(!secrets.is_empty(), "{template}");
        all += 1;
        let json = line(&serde_json::json!({ "type": "user", "tool_use_result": { "stdout": plain } }));
        if let Some(output) = [text(&plain), json].iter().find(|output| survives(output, &secrets)) {
            bad.push(format!("{template}\n    {output:?}"));
        }
    }
    at_most(3, all, &bad);
}

#[test]
fn innocents_stay_as_they_are() {
    INNOCENTS.into_iter().for_each(they_stay);
}

fn they_stay(innocents: &str) {
    let mut dice = Dice(31);
    let (mut all, mut bad) = (0, Vec::new());
    for template in entries(innocents) {
        let (plain, _) = dice.fill(template);
        all += 1;
        let mut values = vec![serde_json::json!({ "type": "user", "text": plain })];
        values.extend(
            serde_json::from_str(&plain).ok().filter(|value: &serde_json::Value| value.is_object() || value.is_array()),
        );
        let harmed = values.iter().map(line).find(|output| output.contains(REDACTED));
        if let Some(output) = harmed.or_else(|| Some(text(&plain)).filter(|output| *output != plain)) {
            bad.push(format!("{template}\n    {output}"));
        }
    }
    at_most(2, all, &bad);
}
