//! The description of the API is one to work with: its example bodies are accepted, it has words for every field, and the page
//! `/docs` shows it on a narrow screen.

use super::*;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Opens everything on the page, and tells the frame around it what there is.
const MEASURE: &str = r#"<script>
addEventListener("load", () => {
  for (const box of document.querySelectorAll("details")) box.open = true;
  const routes = [...document.querySelectorAll(".route")];
  const hasLines = route => route.querySelector("pre.curl") && route.querySelector("pre.python");
  const { scrollWidth, clientWidth } = document.documentElement;
  parent.postMessage({
    scrollWidth, clientWidth, routes: routes.length, lines: routes.filter(hasLines).length,
    required: document.querySelectorAll(".required").length,
  }, "*");
});
</script>
</html>"#;

/// Shows the page 360 pixels wide, and what it tells as the only text.
const FRAME: &str = r#"<!doctype html>
<html><head><script>
addEventListener("message", told => { document.body.textContent = JSON.stringify(told.data); });
</script></head><body><iframe src="page.html" width="360" height="800"></iframe></body></html>"#;

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

#[test]
fn a_real_browser_shows_every_route_on_a_narrow_page() {
    let dir = tempfile::tempdir().unwrap();
    let document = serde_json::to_value(document()).unwrap();
    let text = document.to_string().replace("</", "<\\/");
    let answer =
        format!("<script>fetch = () => Promise.resolve({{ json: () => Promise.resolve({text}) }});</script>\n<script>");
    let page = include_str!("../page.html").replacen("<script>", &answer, 1);
    fs_err::write(dir.path().join("page.html"), page.replace("</html>", MEASURE)).unwrap();
    fs_err::write(dir.path().join("frame.html"), FRAME).unwrap();
    let told = told_by_browser(dir.path());
    let routes = Value::from(operations(&document).len());
    assert_eq!((&told["routes"], &told["lines"]), (&routes, &routes), "{told}");
    assert_eq!(told["scrollWidth"], told["clientWidth"], "{told}");
    assert!(told["required"].as_u64() > Some(10), "{told}");
}

/// What the frame shows in the end.
fn told_by_browser(dir: &Path) -> Value {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--virtual-time-budget=10000", "--timeout=240000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", dir.join("frame.html").display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let body = shown
        .split_once("<body>")
        .and_then(|(_, rest)| rest.split_once("</body>"));
    let (told, _) = body.unwrap_or_else(|| panic!("chromium shows no page: {shown}"));
    serde_json::from_str(told).unwrap_or_else(|error| panic!("{error}: {told}"))
}
