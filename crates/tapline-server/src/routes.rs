//! The table of routes, and the guard in front of all of them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use crate::api::{archive, control, events, openapi, push, sessions, system};
use crate::app::App;
use crate::error::{self, ApiError};
use crate::guard::{self, Access};
use crate::tokens::{Right, Rights};

/// A route: its method, its path, who may ask, and who answers.
type Route = (&'static str, &'static str, Access, MethodRouter<Arc<App>>);

/// Who may ask each path.
type Accesses = Arc<HashMap<&'static str, Access>>;

/// All routes.
pub(crate) fn table() -> Vec<Route> {
    use Access::{Known, Open, Page};
    const PUSH: Access = Access::With(Right::Push);
    const READ: Access = Access::With(Right::Read);
    const CONTROL: Access = Access::With(Right::Control);
    vec![
        ("get", "/", Page, get(system::page)),
        ("get", "/sessions/{id}", Page, get(system::page)),
        ("get", "/costs", Page, get(system::page)),
        ("get", "/open", Open, get(system::open)),
        ("get", "/assets/{name}", Page, get(system::asset)),
        ("get", "/healthz", Open, get(system::health)),
        ("get", "/readyz", Open, get(system::ready)),
        ("get", "/metrics", READ, get(system::metrics)),
        ("post", "/api/v1/sign-in", Known, post(system::sign_in)),
        ("get", "/api/v1/openapi.json", Known, get(openapi::document)),
        ("get", "/api/v1/sessions", READ, get(sessions::list)),
        ("get", "/api/v1/sessions/{id}", READ, get(sessions::one)),
        ("get", "/api/v1/sessions/{id}/steps", READ, get(sessions::steps)),
        ("get", "/api/v1/sessions/{id}/events", READ, get(events::session)),
        ("get", "/api/v1/sessions/{id}/questions/{question}", READ, get(control::question)),
        ("get", "/api/v1/sessions/{id}/download", READ, get(archive::download)),
        ("get", "/api/v1/events", READ, get(events::list)),
        ("get", "/api/v1/search", READ, get(archive::search)),
        ("get", "/api/v1/costs", READ, get(archive::costs)),
        ("post", "/api/v1/ingest/{run}", PUSH, post(push::append)),
        ("post", "/api/v1/ingest/{run}/finish", PUSH, post(push::finish)),
        ("get", "/api/v1/ingest/{run}/commands", PUSH, get(control::commands)),
        ("post", "/api/v1/sessions/{id}/answer", CONTROL, post(control::answer)),
        ("post", "/api/v1/sessions/{id}/interrupt", CONTROL, post(control::interrupt)),
        ("post", "/api/v1/sessions/{id}/stop", CONTROL, post(control::stop)),
        ("post", "/api/v1/sessions/{id}/message", CONTROL, post(control::message)),
    ]
}

/// Returns everything that the server answers, behind the guard.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let access: Accesses = Arc::new(table().iter().map(|(_, path, access, _)| (*path, *access)).collect());
    let state = (Arc::clone(app), access);
    let routes = table().into_iter().fold(Router::new(), |routes, (_, path, _, answers)| routes.route(path, answers));
    routes
        .fallback(|| async {
            ApiError::new(StatusCode::NOT_FOUND, "no-route", "There is nothing here. /api/v1/openapi.json lists what there is.")
        })
        .method_not_allowed_fallback(|| async { ApiError::wrong_method() })
        .layer(from_fn_with_state(state, guarded))
        .with_state(Arc::clone(app))
}

/// Checks a request, and seals the answer.
async fn guarded(State((app, access)): State<(Arc<App>, Accesses)>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let route = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let access = route.and_then(|route| access.get(route)).copied().unwrap_or(Access::Known);
    let is_for_programs = parts.uri.path().starts_with("/api/") || parts.uri.path() == "/metrics";
    let mut response = match app.guard.check(&parts, access).map(Rights::of) {
        Ok(rights) => {
            parts.extensions.insert(rights);
            next.run(Request::from_parts(parts, body)).await
        }
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
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_has_every_route_of_the_api_and_no_other() {
        let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
        let (mut described, mut needed) = (BTreeSet::new(), BTreeMap::new());
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
                needed.insert(path.clone(), needs(&document, operation));
                assert!(
                    operation["responses"].as_object().is_some_and(|answers| answers.contains_key("200")),
                    "{method} {path}"
                );
            }
        }
        let is_of_page = |path: &str| ["/", "/sessions/{id}", "/costs", "/open", "/assets/{name}"].contains(&path);
        let rows = || table().into_iter().filter(|(_, path, ..)| !is_of_page(path));
        let served: BTreeSet<_> = rows().map(|(method, path, ..)| (method.to_owned(), path.to_owned())).collect();
        assert_eq!(described, served);
        for (_, path, access, _) in rows() {
            assert_eq!(needed[path], access, "{path}");
        }
    }

    /// Who may ask, as the description has it.
    fn needs(document: &Value, operation: &Value) -> Access {
        let security = operation.get("security").unwrap_or(&document["security"]).as_array().unwrap();
        let Some(token) = security.first() else { return Access::Open };
        assert_eq!((&security[1]["cookie"], security.len()), (&token["token"], 2), "{operation}");
        let named: Vec<&str> = token["token"].as_array().unwrap().iter().map(|right| right.as_str().unwrap()).collect();
        let right = |name: &str| Right::ALL.into_iter().find(|right| right.name() == name).unwrap();
        assert!(operation["responses"]["401"].is_object() && operation["responses"]["403"].is_object(), "{operation}");
        match named.as_slice() {
            [] => Access::Known,
            [name] => Access::With(right(name)),
            more => panic!("{more:?}"),
        }
    }

    /// The guard knows a route by its path.
    #[test]
    fn each_path_has_one_row() {
        let paths: BTreeSet<&str> = table().iter().map(|(_, path, ..)| *path).collect();
        assert_eq!(paths.len(), table().len());
    }
}
