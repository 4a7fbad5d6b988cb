//! Which server inside a sandbox a request is for: named by the host, by E2B's two headers, or by the path.
//!
//! Called before the routes of the API. Whether the request may go there is checked in `ports`.

use super::connect::invalid;
use super::cookies::strip_domains;
use super::route::{ENVD_PORT, INTERPRETER_PORT, header_id, of_host};
use crate::api::ApiError;
use atoll_core::SandboxId;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

const PORT: &str = "e2b-sandbox-port";
const FORWARDED_PREFIX: &str = "x-forwarded-prefix";
/// All servers below paths, and the API, have one origin. A page without an origin cannot read the others.
const NO_ORIGIN: &str = "sandbox allow-scripts allow-forms allow-downloads";
/// What a browser sends to every path of an origin: it is for the API, or for a proxy in front of it.
const OF_THE_ORIGIN: [HeaderName; 2] = [header::COOKIE, header::AUTHORIZATION];
/// What a browser applies to a whole origin. No server inside may decide that for the API.
const FOR_THE_ORIGIN: [&str; 11] = [
    "accept-ch",
    "alt-svc",
    "clear-site-data",
    "nel",
    "origin-agent-cluster",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "strict-transport-security",
];

/// A port of one sandbox that is neither E2B's own service nor the code interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) port: u16,
    /// The id as the client wrote it.
    pub(super) name: String,
    /// `/sandboxes/{id}/ports/{port}` as the client wrote it.
    prefix: Option<String>,
}

impl Target {
    /// The host counts first, then the headers, then the path. `None`: the request is for the API.
    pub(super) fn of(request: &Request) -> Result<Option<Self>, ApiError> {
        if let Some((port, name)) = of_host(request.headers()) {
            return Ok(is_user_port(port).then_some(Self::plain(port, name)));
        }
        match Self::of_headers(request.headers())? {
            Some(target) => Ok(Some(target)),
            None => Self::of_path(request.uri().path()),
        }
    }

    fn plain(port: u16, name: String) -> Self {
        Self {
            port,
            name,
            prefix: None,
        }
    }

    fn of_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let Some(port) = header_port(headers)?.filter(|port| is_user_port(*port)) else {
            return Ok(None);
        };
        let name = header_id(headers)?.map(str::to_owned);
        Ok(name.map(|name| Self::plain(port, name)))
    }

    fn of_path(path: &str) -> Result<Option<Self>, ApiError> {
        let mut parts = path.splitn(6, '/');
        let mut next = || parts.next().unwrap_or_default();
        let (first, sandboxes, name, ports, port) = (next(), next(), next(), next(), next());
        if (first, sandboxes, ports) != ("", "sandboxes", "ports") {
            return Ok(None);
        }
        if SandboxId::parse(name).is_none() {
            return Err(ApiError::not_found("sandbox"));
        }
        let number = port_of(port).ok_or_else(|| invalid("the path does not name a port between 1 and 65535"))?;
        if !is_user_port(number) {
            let message = format!("port {number} cannot be reached by path; send the header E2b-Sandbox-Port instead");
            return Err(invalid(message));
        }
        let prefix = Some(format!("/sandboxes/{name}/ports/{port}"));
        Ok(Some(Self {
            prefix,
            ..Self::plain(number, name.to_owned())
        }))
    }

    /// The server inside gets its own path, the prefix in a header, and nothing that was meant for the origin.
    pub(super) fn remove_prefix(&self, request: &mut Request) {
        let Some(prefix) = &self.prefix else { return };
        let whole = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let rest = whole.strip_prefix(prefix.as_str()).unwrap_or(whole);
        let slash = if rest.starts_with('/') { "" } else { "/" };
        if let Ok(uri) = format!("{slash}{rest}").parse() {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        for name in OF_THE_ORIGIN {
            headers.remove(name);
        }
        if let Ok(prefix) = HeaderValue::from_str(prefix) {
            headers.insert(FORWARDED_PREFIX, prefix);
        }
    }

    /// What the server inside answers applies to this server only.
    pub(super) fn confine_answer(&self, headers: &mut HeaderMap) {
        strip_domains(headers);
        if self.prefix.is_some() {
            for name in FOR_THE_ORIGIN {
                headers.remove(name);
            }
            headers.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_ORIGIN));
        }
    }
}

fn is_user_port(port: u16) -> bool {
    ![ENVD_PORT, INTERPRETER_PORT].contains(&port)
}

/// The port that the headers name. Of two, a proxy in front of this server could check the other one.
fn header_port(headers: &HeaderMap) -> Result<Option<u16>, ApiError> {
    let mut values = headers.get_all(PORT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let port = value.to_str().ok().and_then(port_of);
    match (port, values.next()) {
        (Some(port), None) => Ok(Some(port)),
        _ => Err(invalid(
            "the E2b-Sandbox-Port header must be sent once, with a port between 1 and 65535",
        )),
    }
}

fn port_of(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(host: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let builder = Request::builder().uri(path).header(header::HOST, host);
        let with = headers
            .iter()
            .fold(builder, |all, (name, value)| all.header(*name, *value));
        with.body(Body::empty()).unwrap()
    }

    fn id() -> String {
        SandboxId::from_random([3; 16]).to_string()
    }

    #[test]
    fn host_headers_and_path_name_a_server_inside() {
        let (id, local) = (id(), "localhost:7070");
        let by_id = ("e2b-sandbox-id", id.as_str());
        let path = format!("/sandboxes/{id}/ports/3000/a");
        let of = |host: &str, path: &str, headers: &[(&str, &str)]| Target::of(&request(host, path, headers)).unwrap();
        let wanted = Target::plain(3000, id.clone());
        let host = format!("3000-{id}.sbx.localhost");
        let other = [("e2b-sandbox-id", "other"), (PORT, "1")];
        assert_eq!(of(&host, &path, &other).as_ref(), Some(&wanted));
        let by_headers = of(local, "/sandboxes/x/ports/1/", &[by_id, (PORT, "3000")]);
        assert_eq!(by_headers.as_ref(), Some(&wanted));
        let by_path = of(local, &path, &[]).unwrap();
        assert_eq!((by_path.port, by_path.name.as_str()), (3000, id.as_str()));
        assert_eq!(by_path.prefix.as_deref(), Some(&*format!("/sandboxes/{id}/ports/3000")));
        for port in ["49983", "49999"] {
            assert_eq!(of(&format!("{port}-{id}.sbx.localhost"), "/a", &[]), None);
            assert_eq!(of(local, "/a", &[by_id, (PORT, port)]), None);
        }
        assert_eq!(of(local, "/a", &[by_id]), None);
        assert_eq!(of(local, "/a", &[(PORT, "3000")]), None);
        for other in [
            "/",
            "/sandboxes",
            "/sandboxes/x",
            "/v1/sandboxes/x/ports/1",
            "/sandboxes/x/files/ports/1",
        ] {
            assert_eq!(of(local, other, &[]), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_port_is_refused() {
        let id = id();
        let refused = |path: &str, headers: &[(&str, &str)]| {
            let mut all = vec![("e2b-sandbox-id", id.as_str())];
            all.extend(headers);
            Target::of(&request("localhost", path, &all)).is_err()
        };
        for port in ["0", "65536", "+80", "", "x"] {
            assert!(refused("/", &[(PORT, port)]), "{port}");
            assert!(refused(&format!("/sandboxes/{id}/ports/{port}/"), &[]), "{port}");
        }
        assert!(refused("/", &[(PORT, "80"), (PORT, "81")]));
        assert!(refused("/", &[(PORT, "80"), ("e2b-sandbox-id", "other")]));
        assert!(refused("/sandboxes/x;Domain=y/ports/80/", &[]));
        for port in [ENVD_PORT, INTERPRETER_PORT] {
            assert!(refused(&format!("/sandboxes/{id}/ports/{port}/"), &[]), "{port}");
        }
    }

    #[test]
    fn the_prefix_is_removed_and_told_in_a_header() {
        let prefix = format!("/sandboxes/{}/ports/3000", id());
        for (rest, left) in [
            ("", "/"),
            ("/", "/"),
            ("?a=/b", "/?a=/b"),
            ("/a%2Fb/c?d", "/a%2Fb/c?d"),
            ("//x", "//x"),
        ] {
            let told = [
                (FORWARDED_PREFIX, "/forged"),
                ("cookie", "a=1"),
                ("authorization", "Basic x"),
            ];
            let mut request = request("localhost", &format!("{prefix}{rest}"), &told);
            let target = Target::of(&request).unwrap().unwrap();
            target.remove_prefix(&mut request);
            assert_eq!(request.uri().to_string(), left, "{rest}");
            assert_eq!(request.headers()[FORWARDED_PREFIX], prefix);
            assert!(OF_THE_ORIGIN.iter().all(|name| !request.headers().contains_key(name)));
        }
    }

    #[test]
    fn only_pages_below_a_path_have_no_origin() {
        let below = Target::of_path(&format!("/sandboxes/{}/ports/1", id()))
            .unwrap()
            .unwrap();
        for (target, is_below) in [(Target::plain(1, id()), false), (below, true)] {
            let mut headers = HeaderMap::new();
            for name in FOR_THE_ORIGIN {
                headers.insert(name, HeaderValue::from_static("x"));
            }
            target.confine_answer(&mut headers);
            assert_eq!(headers.contains_key("strict-transport-security"), !is_below);
            assert_eq!(headers.contains_key(header::SET_COOKIE), !is_below);
            assert_eq!(headers.contains_key(header::CONTENT_SECURITY_POLICY), is_below);
        }
    }
}
