//! The description of the API is one to work with: its example bodies are accepted, and it has words for every field.

use super::*;
use serde_json::Value;

/// Every operation, as its method, its path and its description.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().clone();
        let path = path.clone();
        methods
            .into_iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    };
    paths.iter().flat_map(of_path).collect()
}

/// A schema, or the one of the document that it refers to.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn is_described(field: &Value) -> bool {
    let ways = field["oneOf"].as_array().into_iter().flatten();
    ways.chain([field])
        .any(|way| way["description"].as_str().is_some_and(|text| !text.is_empty()))
}

/// The fields of a schema that have no description.
fn bare_fields(name: &str, schema: &Value) -> Vec<String> {
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let fields = parts
        .chain([schema])
        .filter_map(|part| part["properties"].as_object())
        .flatten();
    fields
        .filter(|(_, field)| !is_described(field))
        .map(|(field, _)| format!("{name}.{field}"))
        .collect()
}

/// The page shows the example of a body as it is.
#[tokio::test]
async fn every_example_body_is_accepted() {
    let world = World::new().await;
    let key = world.key(Scope::ALL).await;
    let document = serde_json::to_value(document()).unwrap();
    let mut sent = 0;
    for (method, path, operation) in operations(&document) {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if body.is_null() {
            continue;
        }
        let example = &resolved(&document, body)["example"];
        assert!(example.is_object(), "{method} {path} has no example");
        let request = Request::builder().method(method.as_str()).uri(filled(&path));
        let request = request
            .header("x-api-key", &key)
            .header(header::CONTENT_TYPE, "application/json");
        let answer = world.send(request, example.to_string()).await;
        sent += 1;
        if answer.status().is_success() {
            continue;
        }
        // The sandbox that the path names and the template are not there.
        let refused = code(answer).await;
        let is_of_body = ["malformed_json", "invalid_request", "unsupported_media_type"].contains(&refused.as_str());
        assert!(!is_of_body, "{method} {path}: {refused}: {example}");
    }
    assert!(sent > 10, "{sent}");
}

#[test]
fn every_field_and_parameter_has_a_description() {
    let document = serde_json::to_value(document()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let fields = schemas.iter().flat_map(|(name, schema)| bare_fields(name, schema));
    let mut bare: Vec<String> = fields.collect();
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.filter(|parameter| !is_described(parameter));
        bare.extend(parameters.map(|parameter| format!("{method} {path}: {}", parameter["name"])));
    }
    assert_eq!(bare, [""; 0]);
}

#[test]
fn required_parameters_of_a_query_have_an_example() {
    let document = serde_json::to_value(document()).unwrap();
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let needed = parameters.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        for parameter in needed {
            assert!(
                parameter["example"].is_string(),
                "{method} {path}: {}",
                parameter["name"]
            );
        }
    }
}
