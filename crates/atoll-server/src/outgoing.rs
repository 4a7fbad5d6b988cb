//! The HTTP client of requests that Atoll sends: to the receiver of a webhook, to a collector of traces, and from the
//! command line to a server.
//!
//! It connects to the address it is given and nowhere else: no proxies, no redirects.

use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("https requires trusted CA certificates, and none were found on this host{0}")]
    NoRoots(String),
    #[error("cannot read CA certificates from {}", path.display())]
    Read {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("{} contains no CA certificate in PEM format", .0.display())]
    NoCertificate(PathBuf),
    #[error("TLS setup failed")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client could not be set up")]
    Client(#[from] reqwest::Error),
}

/// Who is trusted to be the server.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// It is asked over plain HTTP.
    Nobody,
    /// Whom the host trusts, or `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    Host,
    /// The authorities in this PEM file and no others.
    File(&'a Path),
}

pub fn client(trust: Trust<'_>) -> Result<reqwest::Client, ClientError> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .user_agent(concat!("atoll/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls(trust)?);
    Ok(client.build()?)
}

/// The same for a thread of its own, with a limit for each request. Must not be called or dropped in an async runtime.
#[cfg(feature = "otlp")]
pub(crate) fn blocking_client(
    trust: Trust<'_>,
    timeout: std::time::Duration,
) -> Result<reqwest::blocking::Client, ClientError> {
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .user_agent(concat!("atoll/", env!("CARGO_PKG_VERSION")))
        .timeout(timeout)
        .tls_backend_preconfigured(tls(trust)?);
    Ok(client.build()?)
}

fn tls(trust: Trust<'_>) -> Result<ClientConfig, ClientError> {
    let roots = match trust {
        Trust::Nobody => RootCertStore::empty(),
        Trust::Host => of_host()?,
        Trust::File(path) => of_file(path)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn of_host() -> Result<RootCertStore, ClientError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.iter().map(|error| format!("; {error}"));
        return Err(ClientError::NoRoots(why.collect()));
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, ClientError> {
    let unreadable = |source| ClientError::Read {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        roots.add(certificate.map_err(unreadable)?)?;
    }
    match roots.is_empty() {
        true => Err(ClientError::NoCertificate(path.to_owned())),
        false => Ok(roots),
    }
}

/// What was at the bottom of a failed request, in few words: `Connection refused (os error 111)`. Never its URL.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let why = |path: &Path| client(Trust::File(path)).unwrap_err().to_string();
        assert!(why(&path).contains("cannot read") && why(&path).contains("ca.pem"));
        std::fs::write(&path, "no certificate\n").unwrap();
        assert!(why(&path).contains("ca.pem contains no CA certificate"));
    }

    #[test]
    fn plain_http_needs_no_certificates() {
        assert!(client(Trust::Nobody).is_ok());
    }
}
