//! Gives the client of the store tapline's own HTTP client.

use std::error::Error as StdError;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Error};
use tapline_http::{Address, HttpError as Unanswered, exchange};
use tokio::time::timeout;

/// How long a request may take: a piece of a table goes through a slow line, too.
const REQUEST: Duration = Duration::from_secs(120);

/// Makes the client of a store.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient, Error> {
        Ok(HttpClient::new(Service))
    }
}

#[derive(Debug)]
struct Service;

impl HttpService for Service {
    // As the macro `async_trait` would write it.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            timeout(REQUEST, call(request)).await.unwrap_or_else(|late| Err(HttpError::new(HttpErrorKind::Timeout, late)))
        })
    }
}

async fn call(request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let (mut head, body) = request.into_parts();
    // Each request has the whole address. What is sent has only the path.
    let host = head.uri.authority().map(ToString::to_string).unwrap_or_default();
    let address = format!("{}://{host}", head.uri.scheme_str().unwrap_or("https"));
    let address = Address::read(&address).map_err(|error| unusable(error.into()))?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|error| unusable(Box::from(error)))?;
    head.headers.insert("host", host.parse().map_err(|error| unusable(Box::from(error)))?);
    head.headers.insert("connection", "close".parse().map_err(|error| unusable(Box::from(error)))?);
    let mut request = HttpRequest::new(body);
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (head.method, head.uri, head.headers);
    let (head, body) = exchange(&address, request).await.map_err(unanswered)?.into_parts();
    // Answers of a store that is only written to are small.
    let body = body.collect().await.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?.to_bytes();
    let mut answer = HttpResponse::new(HttpResponseBody::new(Full::<Bytes>::new(body).map_err(|never| match never {})));
    (*answer.status_mut(), *answer.headers_mut()) = (head.status, head.headers);
    Ok(answer)
}

fn unusable(error: Box<dyn StdError + Send + Sync>) -> HttpError {
    HttpError::new_boxed(HttpErrorKind::Unknown, error)
}

fn unanswered(error: Unanswered) -> HttpError {
    let kind = match &error {
        Unanswered::Connect(_) => HttpErrorKind::Connect,
        Unanswered::Broken(_) => HttpErrorKind::Interrupted,
        Unanswered::TimedOut(_) => HttpErrorKind::Timeout,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
