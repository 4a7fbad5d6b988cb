//! `/openapi.json`: the description of the native API, made from the code. `docs/openapi.json` is its copy.

use super::native;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi as _;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, OpenApi, OpenApiBuilder};

/// The whole description.
pub fn document() -> OpenApi {
    let mut info = Info::new("Atoll", env!("CARGO_PKG_VERSION"));
    info.description = Some(format!(
        "Runs model-written code in isolated sandboxes. Every error response has the same body, \
         `{{\"error\":{{\"code\",\"message\",\"hint\"}}}}`, with one of these codes:\n\n{}",
        native::code_list()
    ));
    let mut document = OpenApiBuilder::new().info(info).build();
    document.merge(native::Description::openapi());
    let components = document.components.get_or_insert_with(Components::default);
    components.responses.extend(native::shared_refusals());
    components.add_security_scheme(
        "key",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-KEY"))),
    );
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    document
}

pub(crate) async fn json() -> Response {
    axum::Json(document()).into_response()
}
