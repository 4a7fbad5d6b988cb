//! Errors in the shape of the native API: `{"error":{"code","message","hint"}}`.

use crate::api::ApiError;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every error response.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error
    pub error: ErrorWords,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorWords {
    /// Error code, from the fixed list in the API description
    #[schema(example = "not_found")]
    pub code: String,
    /// What failed and why, in human-readable form
    pub message: String,
    /// How to resolve the error
    pub hint: Option<String>,
}

pub(super) fn body_of(error: &ApiError) -> ErrorBody {
    ErrorBody {
        error: ErrorWords {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            hint: error.hint_text().map(str::to_owned),
        },
    }
}

pub(crate) fn render(error: &ApiError) -> Response {
    let mut response = (error.code().status(), Json(body_of(error))).into_response();
    error.write_headers(response.headers_mut());
    response
}
