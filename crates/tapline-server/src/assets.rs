//! The page's files, built into the binary. Nothing is fetched from elsewhere.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// A file of the page.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal)*) => {
        const ASSETS: &[Asset] = &[$(Asset { name: $name, bytes: include_bytes!(concat!("../web/", $name)) },)*];
    };
}

assets! {
    "api.js" "asked.js" "choices.js" "conversation.js" "costs.js" "dom.js" "filter.js" "format.js" "help.js" "icon.svg" "main.js" "panel.js" "question.js" "rights.js"
    "row.js" "session.js" "sessions.js" "signin.js" "still.js" "store.js" "style.css" "timeline.js" "virtual.js"
}

/// The style of steps, which exported pages have, too.
const STEPS: Asset = Asset { name: "session.css", bytes: tapline_session::render::html::STYLE.as_bytes() };

/// The page.
const PAGE: &[u8] = include_bytes!("../web/index.html");

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// Returns the page.
pub(crate) fn page() -> Response {
    let mut response = PAGE.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

/// Returns a file of the page, if it has one of this name. A browser asks again each time, because files have no version in their names.
pub(crate) fn asset(name: &str) -> Result<Response, ApiError> {
    let missing = || ApiError::new(StatusCode::NOT_FOUND, "no-file", "The page has no such file. Load the page again.");
    let asset = ASSETS.iter().chain([&STEPS]).find(|asset| asset.name == name).ok_or_else(missing)?;
    let mut response = asset.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind_of(asset.name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that are not the page's.
    const OTHERS: &[&str] = &["README.md", "index.html", "tsconfig.json", "types.d.ts"];

    #[test]
    fn every_file_of_the_page_is_built_in() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let names = entries.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let mut wanted: Vec<String> = names.filter(|name| !OTHERS.contains(&name.as_str())).collect();
        wanted.sort();
        assert_eq!(ASSETS.iter().map(|asset| asset.name).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn every_file_that_the_page_asks_for_is_there() {
        for asset in ASSETS.iter().chain([&Asset { name: "index.html", bytes: PAGE }]) {
            let text = String::from_utf8_lossy(asset.bytes);
            let names =
                ["from './", "href=\"/assets/", "src=\"/assets/", "url(", "@import '", "@import \""].iter().flat_map(|start| {
                    text.split(start).skip(1).filter_map(|rest| rest.split(['\'', '"', ')']).find(|name| !name.is_empty()))
                });
            for name in names.filter(|name| name.contains('.') && !name.starts_with("data:")) {
                let name = name.trim_start_matches("/assets/").trim_start_matches("./");
                assert!(super::asset(name).is_ok(), "{} asks for {name}", asset.name);
            }
        }
    }
}
