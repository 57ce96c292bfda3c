//! What simple commands write, as far as the text shows: `echo rm x | sh` runs what `echo` writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::Input;

/// Returns what a command writes, or `None` if it is not known.
pub(super) fn of(name: &str, args: &[String], input: &Input) -> Option<String> {
    let given = || match input {
        Input::Known(text) => Some(text.clone()),
        Input::Inherited | Input::Unknown => None,
    };
    match name {
        "echo" => Some(echo(args)),
        "printf" => printf(args),
        // Without a file, they pass on their input.
        "cat" | "tee" | "head" | "tail" | "sort" | "uniq" if args.iter().all(|arg| arg.starts_with('-')) => given(),
        "tee" => given(),
        "rev" => Some(given()?.lines().map(|line| line.chars().rev().collect::<String>() + "\n").collect()),
        "base64" if args.iter().any(|arg| matches!(&**arg, "-d" | "-D" | "--decode")) => base64(&given()?),
        "true" | ":" | "cd" | "set" | "shopt" | "alias" | "export" | "unset" | "read" | "test" | "[" | "rm" => {
            Some(String::new())
        }
        "which" | "command" | "type" | "whence" => args.last().filter(|_| args.len() == 1 || args[0].starts_with('-')).cloned(),
        "basename" => args.first().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()),
        _ => None,
    }
}

fn echo(args: &[String]) -> String {
    let is_option =
        |arg: &&String| arg.len() > 1 && arg.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| "neE".contains(c)));
    let options = args.iter().take_while(is_option).count();
    let text = args[options..].join(" ");
    let escapes = args[..options].iter().any(|option| option.contains('e'));
    let end = if args[..options].iter().any(|option| option.contains('n')) { "" } else { "\n" };
    format!("{}{end}", if escapes { escaped(&text) } else { text })
}

fn printf(args: &[String]) -> Option<String> {
    let args = if args.first().is_some_and(|arg| arg == "--") { &args[1..] } else { args };
    let (format, mut values) = args.split_first().map(|(format, values)| (escaped(format), values.iter()))?;
    let mut written = String::new();
    let mut work = 0;
    // The format is reused while there are values. A long format with many values is not followed.
    loop {
        work += format.len();
        if work > 256 * 1024 {
            return None;
        }
        let before = values.len();
        let mut characters = format.chars();
        while let Some(c) = characters.next() {
            if c != '%' {
                written.push(c);
                continue;
            }
            let sign = characters.find(|c| c.is_alphabetic() || *c == '%')?;
            match sign {
                '%' => written.push('%'),
                'b' => written.push_str(&escaped(values.next().map_or("", |value| value))),
                'c' => written.extend(values.next().and_then(|value| value.chars().next())),
                's' | 'q' | 'd' | 'i' => written.push_str(values.next().map_or("", |value| value)),
                _ => return None,
            }
        }
        if values.len() == 0 || values.len() == before || written.len() > 64 * 1024 {
            return Some(written);
        }
    }
}

/// Decodes escapes: `\x72`, `\162`, `\n`.
fn escaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let first = rest.as_bytes().first();
        let mut number = |skip: usize, radix: u32, most: usize| {
            let digits = rest[skip..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
            let code = u32::from_str_radix(&rest[skip..skip + digits], radix).ok();
            rest = &rest[skip + digits..];
            bytes.extend(code.map(|code| code.to_le_bytes()[0]));
        };
        match first {
            Some(b'x') => number(1, 16, 2),
            Some(b'0') => number(1, 8, 3),
            Some(b'1'..=b'7') => number(0, 8, 3),
            Some(known) if b"ntr\\".contains(known) => {
                bytes.push(match known {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    _ => b'\\',
                });
                rest = &rest[1..];
            }
            _ => bytes.push(b'\\'),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Decodes as `base64 -d` does: whitespace is ignored, and the padding may be missing.
fn base64(text: &str) -> Option<String> {
    let letters: Vec<u8> = text.bytes().filter(|letter| !letter.is_ascii_whitespace() && *letter != b'=').collect();
    String::from_utf8(STANDARD_NO_PAD.decode(letters).ok()?).ok()
}
