//! Paths as rules see them: resolved first, then compared folder by folder.

use crate::pattern::matches as name_matches;

/// Returns an absolute path without `.` and `..`, or `None` if it is relative and `cwd` is not known.
pub fn resolve(path: &str, cwd: Option<&str>) -> Option<String> {
    let path = path.trim();
    if path.len() > 4096 {
        return None;
    }
    // The text does not say whose home it is.
    if path.starts_with('~') {
        return None;
    }
    let whole =
        if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", cwd.filter(|cwd| cwd.starts_with('/'))?) };
    let mut folders: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(folders.pop()),
            part => folders.push(part),
        }
    }
    Some(format!("/{}", folders.join("/")))
}

/// Resolves the links in the folders before the first `*` of a pattern. Returns `None` if that changes nothing.
pub(super) fn behind_links(pattern: &str, cwd: Option<&str>, real: impl Fn(&str) -> String) -> Option<String> {
    let whole = resolve(pattern, cwd)?;
    let fixed = whole.split('*').next().unwrap_or_default();
    let fixed = if fixed.len() == whole.len() { fixed } else { &fixed[..=fixed.rfind('/')?] };
    let behind = real(fixed.trim_end_matches('/'));
    let elsewhere = format!("{}/{}", behind.trim_end_matches('/'), whole[fixed.len()..].trim_start_matches('/'));
    let elsewhere = elsewhere.trim_end_matches('/').to_owned();
    (elsewhere != whole).then_some(elsewhere)
}

/// Returns whether a pattern matches a resolved path: `*` stands for part of a name, `**` for any number of folders.
pub(super) fn matches(pattern: &str, path: &str, cwd: Option<&str>) -> bool {
    let Some(pattern) = resolve(pattern, cwd) else { return false };
    let parts = |text: &'_ str| text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    folders_match(&parts(&pattern), &parts(path))
}

/// On a mismatch only the last `**` takes another folder; earlier ones need not. The time is at most the product of
/// both lengths.
fn folders_match(pattern: &[String], path: &[String]) -> bool {
    let (mut part, mut at, mut last) = (0, 0, None);
    while at < path.len() {
        match pattern.get(part) {
            Some(first) if first == "**" => {
                last = Some((part, at));
                part += 1;
            }
            Some(name) if name_matches(name, &path[at]) => {
                part += 1;
                at += 1;
            }
            _ => match &mut last {
                Some((stars, from)) => {
                    *from += 1;
                    (part, at) = (*stars + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[part..].iter().all(|part| part == "**")
}
