//! The table of routes, and the guard in front of all of them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use crate::api::{archive, control, events, openapi, push, sessions, system};
use crate::app::App;
use crate::error::{self, ApiError};
use crate::guard;

/// A route: its method, its path, and who answers.
type Route = (&'static str, &'static str, MethodRouter<Arc<App>>);

/// All routes.
pub(crate) fn table() -> Vec<Route> {
    vec![
        ("get", "/", get(system::page)),
        ("get", "/sessions/{id}", get(system::page)),
        ("get", "/costs", get(system::page)),
        ("get", "/open", get(system::open)),
        ("get", "/assets/{name}", get(system::asset)),
        ("get", "/healthz", get(system::health)),
        ("get", "/readyz", get(system::ready)),
        ("get", "/metrics", get(system::metrics)),
        ("get", "/api/v1/openapi.json", get(openapi::document)),
        ("get", "/api/v1/sessions", get(sessions::list)),
        ("get", "/api/v1/sessions/{id}", get(sessions::one)),
        ("get", "/api/v1/sessions/{id}/steps", get(sessions::steps)),
        ("get", "/api/v1/sessions/{id}/events", get(events::session)),
        ("get", "/api/v1/sessions/{id}/questions/{question}", get(control::question)),
        ("get", "/api/v1/sessions/{id}/download", get(archive::download)),
        ("get", "/api/v1/events", get(events::list)),
        ("get", "/api/v1/search", get(archive::search)),
        ("get", "/api/v1/costs", get(archive::costs)),
        ("post", "/api/v1/ingest/{run}", post(push::append)),
        ("post", "/api/v1/ingest/{run}/finish", post(push::finish)),
        ("get", "/api/v1/ingest/{run}/commands", get(control::commands)),
        ("post", "/api/v1/sessions/{id}/answer", post(control::answer)),
        ("post", "/api/v1/sessions/{id}/interrupt", post(control::interrupt)),
        ("post", "/api/v1/sessions/{id}/stop", post(control::stop)),
        ("post", "/api/v1/sessions/{id}/message", post(control::message)),
    ]
}

/// Returns everything that the server answers, behind the guard.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let routes = table().into_iter().fold(Router::new(), |routes, (_, path, answers)| routes.route(path, answers));
    routes
        .fallback(|| async {
            ApiError::new(StatusCode::NOT_FOUND, "no-route", "There is nothing here. /api/v1/openapi.json lists what there is.")
        })
        .method_not_allowed_fallback(|| async { ApiError::wrong_method() })
        .layer(from_fn_with_state(Arc::clone(app), guarded))
        .with_state(Arc::clone(app))
}

/// Checks a request, and seals the answer.
async fn guarded(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let is_for_programs = path.starts_with("/api/") || path == "/metrics";
    let mut response = match app.guard.check(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    };
    if is_for_programs {
        response = error::for_programs(response).await;
    } else {
        error::for_people(&mut response);
    }
    guard::seal(response.headers_mut());
    app.metrics.answered(response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_description_has_every_route_of_the_api_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                described.insert((method.clone(), path.clone()));
                let named: BTreeSet<&str> = operation["parameters"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|one| one["in"] == "path")
                    .filter_map(|one| one["name"].as_str())
                    .collect();
                let in_path: BTreeSet<&str> =
                    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
                assert_eq!(named, in_path, "{method} {path}");
                assert!(
                    operation["responses"].as_object().is_some_and(|answers| answers.contains_key("200")),
                    "{method} {path}"
                );
            }
        }
        let is_of_page = |path: &str| ["/", "/sessions/{id}", "/costs", "/open", "/assets/{name}"].contains(&path);
        let served: BTreeSet<_> = table()
            .into_iter()
            .filter(|(_, path, _)| !is_of_page(path))
            .map(|(method, path, _)| (method.to_owned(), path.to_owned()))
            .collect();
        assert_eq!(described, served);
    }
}
