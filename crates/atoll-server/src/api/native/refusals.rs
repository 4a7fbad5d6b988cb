//! Every refusal that a route may give, for the description of the API: one shape, the closed list of codes.

use super::ErrorBody;
use crate::api::ErrorCode;
use std::collections::BTreeMap;
use utoipa::openapi::content::Content;
use utoipa::openapi::{Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Listed by each route beside its success.
#[derive(Debug)]
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let by_name = |status: &String| Ref::from_response_name(name(status)).into();
        by_status()
            .keys()
            .map(|status| (status.clone(), by_name(status)))
            .collect()
    }
}

/// What the names stand for: a part of the description that all routes share.
pub(crate) fn shared() -> Vec<(String, RefOr<Response>)> {
    let refusals = by_status().into_iter();
    refusals
        .map(|(status, codes)| (name(&status), refusal(&codes)))
        .collect()
}

fn name(status: &str) -> String {
    format!("Refused{status}")
}

fn by_status() -> BTreeMap<String, Vec<&'static str>> {
    let mut refusals: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for code in ErrorCode::ALL.iter().filter(|code| **code != ErrorCode::Internal) {
        let status = code.status().as_u16().to_string();
        refusals.entry(status).or_default().push(code.as_str());
    }
    refusals
}

fn refusal(codes: &[&str]) -> RefOr<Response> {
    let schema = Ref::from_schema_name(ErrorBody::name());
    let body = Content::builder().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(codes.join(", "));
    RefOr::T(response.content("application/json", body).build())
}
