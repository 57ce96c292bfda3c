//! The names of models as providers write them: with regions and makers before them, dates and versions behind them.
//! Only such known parts are taken off. A name is never matched by a part of it, because `…-4` and `…-4-5` are different
//! models with different prices.

use std::borrow::Cow;

/// What may stand before a name and a slash, without another price.
const PATHS: &[&str] = &[
    "alibaba",
    "anthropic",
    "azure",
    "bedrock",
    "converse",
    "dashscope",
    "gemini",
    "google",
    "models",
    "openai",
    "openrouter",
    "publishers",
    "qwen",
    "vertex_ai",
    "x-ai",
    "xai",
];

/// What may stand before a name and a dot: regions and makers, on Bedrock.
const PLACES: &[&str] = &["anthropic", "apac", "au", "ca", "eu", "global", "jp", "openai", "qwen", "us"];

/// Finds what is known about a model.
pub(super) fn find<T>(name: &str, known: impl Fn(&str) -> Option<T>) -> Option<T> {
    let name = name.trim();
    // Most names need no copy, and there are as many as messages.
    let is_upper = |byte: u8| byte.is_ascii_uppercase();
    let name = if name.bytes().any(is_upper) { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) };
    let (mut from, mut in_cloud) = (&*name, false);
    loop {
        let mut part = (from, in_cloud);
        loop {
            // Some write the version 4-5 as 4.5.
            let dashed = || known(&part.0.contains('.').then(|| part.0.replace('.', "-"))?);
            if let Some(found) = known(part.0).or_else(dashed) {
                return Some(found);
            }
            let Some(shorter) = without_end(part.0, part.1) else { break };
            part = shorter;
        }
        (from, in_cloud) = without_start(from, in_cloud)?;
    }
}

/// Takes off the first known part before a name, and says whether a cloud has put it there.
fn without_start(name: &str, in_cloud: bool) -> Option<(&str, bool)> {
    if let Some((path, rest)) = name.split_once('/') {
        let is_arn = path.starts_with("arn:aws:bedrock:");
        return (is_arn || PATHS.contains(&path)).then_some((rest, in_cloud || is_arn));
    }
    let (place, rest) = name.split_once('.')?;
    PLACES.contains(&place).then_some((rest, true))
}

/// Takes off the last known part behind a name, and says whether a cloud has put it there.
fn without_end(name: &str, in_cloud: bool) -> Option<(&str, bool)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((name, _context)) = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
        return Some((name, in_cloud));
    }
    if let Some((name, version)) = name.rsplit_once('@') {
        return (is_day(version) || ["default", "latest"].contains(&version)).then_some((name, true));
    }
    if let Some((name, revision)) = name.rsplit_once(':') {
        return is_number(revision).then_some((name, true));
    }
    // Outside a cloud, v2 of a model is another model.
    let version = name.rsplit_once("-v").filter(|(_, version)| in_cloud && is_number(version));
    if let Some((name, _)) = version {
        return Some((name, true));
    }
    if let Some(name) = name.strip_suffix("-latest") {
        return Some((name, in_cloud));
    }
    [9, 11].into_iter().find_map(|length| {
        let (name, date) = name.split_at_checked(name.len().checked_sub(length)?)?;
        is_day(date.strip_prefix('-')?).then_some((name, in_cloud))
    })
}

/// Whether a text is a day of this century: `20251101` or `2025-11-01`.
pub(super) fn is_day(text: &str) -> bool {
    let digits = match text.as_bytes() {
        [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] => [*y1, *y2, *y3, *y4, *m1, *m2, *d1, *d2],
        bytes => match bytes.try_into() {
            Ok(digits) => digits,
            Err(_) => return false,
        },
    };
    let [b'2', b'0', _, _, m1, m2, d1, d2] = digits else { return false };
    digits.iter().all(u8::is_ascii_digit) && (b"01"..=b"12").contains(&&[m1, m2]) && (b"01"..=b"31").contains(&&[d1, d2])
}
