//! HTTPS: the certificate that the API's listener shows, and when it takes up a new one.
//!
//! The source of the certificate is looked at on each new connection, so a renewal needs no signal: files are read again
//! when one of them has changed, a certificate of the own CA is checked once an hour. A new certificate that cannot be used
//! is logged once, and the previous one stays.

mod local;

use crate::config::{TlsMode, TlsSettings};
use local::LocalCa;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The one protocol that the server speaks, for clients that offer several.
const ALPN: &[u8] = b"http/1.1";
const HOUR_SECONDS: u64 = 3_600;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read `{}` for HTTPS", path.display())]
    Read { path: PathBuf, source: pem::Error },
    #[error("cannot use the certificate `{}` with the key `{}`", cert.display(), key.display())]
    Pair {
        cert: PathBuf,
        key: PathBuf,
        source: Box<rustls::Error>,
    },
    #[error("cannot write `{}` for HTTPS", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot create a certificate for the domain `{domain}`")]
    Create { domain: String, source: rcgen::Error },
    #[error(
        "clients accept no wildcard certificate for `{0}`; set `domain` to a name with a dot, such as sbx.example.org"
    )]
    Domain(String),
}

impl TlsError {
    /// Whether the same files may be readable for the next connection, for example after a lack of file descriptors.
    fn passes(&self) -> bool {
        let Self::Read {
            source: pem::Error::Io(error),
            ..
        } = self
        else {
            return false;
        };
        !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
    }
}

/// The certificate of a listener.
#[derive(Debug)]
pub(crate) struct Tls {
    source: Source,
    current: Mutex<Current>,
}

#[derive(Debug)]
enum Source {
    Local(LocalCa),
    Files { cert: PathBuf, key: PathBuf },
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// Of the source when it was last read, also if it could not be used.
    version: Version,
}

/// When it changes, the source is read again.
#[derive(Debug, PartialEq, Eq)]
enum Version {
    Hour(u64),
    Files([Option<FileVersion>; 2]),
}

/// Inode, size and time of the last change.
type FileVersion = (u64, u64, i64, i64);

impl Tls {
    /// `None` without HTTPS. `domain` has no port.
    pub(crate) fn open(settings: &TlsSettings, home: &Path, domain: &str) -> Result<Option<Arc<Self>>, TlsError> {
        let source = match (settings.mode, &settings.cert, &settings.key) {
            (Some(TlsMode::Local), ..) => Source::Local(LocalCa::new(home, domain)),
            (None, Some(cert), Some(key)) => Source::Files {
                cert: cert.into(),
                key: key.into(),
            },
            _ => return Ok(None),
        };
        let now = UnixTime::now();
        let version = source.version(now);
        let config = source.read(now)?;
        let current = Mutex::new(Current { config, version });
        Ok(Some(Arc::new(Self { source, current })))
    }

    /// For a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let now = UnixTime::now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.source.version(now);
        if version != current.version {
            current.take_up(self.source.read(now), version);
        }
        Arc::clone(&current.config)
    }

    /// The file with the CA that clients have to trust, if it is the server's own.
    pub(crate) fn authority(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Local(ca) => Some(ca.authority()),
            Source::Files { .. } => None,
        }
    }
}

impl Current {
    fn take_up(&mut self, read: Result<Arc<ServerConfig>, TlsError>, version: Version) {
        let passes = read.as_ref().is_err_and(TlsError::passes);
        match read {
            Ok(config) => self.config = config,
            Err(error) => tracing::error!(
                error = %crate::chain(&error),
                "the new certificate for HTTPS cannot be used; the previous one stays in use"
            ),
        }
        if !passes {
            self.version = version;
        }
    }
}

impl Source {
    fn version(&self, now: UnixTime) -> Version {
        match self {
            Self::Local(_) => Version::Hour(now.as_secs() / HOUR_SECONDS),
            Self::Files { cert, key } => Version::Files([cert, key].map(|path| file_version(path))),
        }
    }

    fn read(&self, now: UnixTime) -> Result<Arc<ServerConfig>, TlsError> {
        match self {
            Self::Local(ca) => ca.config(now),
            Self::Files { cert, key } => {
                let (chain, private) = read_pair(cert, key)?;
                let config = server_config(chain, private).map_err(|source| TlsError::Pair {
                    cert: cert.clone(),
                    key: key.clone(),
                    source: Box::new(source),
                })?;
                tracing::info!(cert = %cert.display(), "loaded the certificate for HTTPS");
                Ok(config)
            }
        }
    }
}

fn file_version(path: &Path) -> Option<FileVersion> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
}

type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_pair(cert: &Path, key: &Path) -> Result<CertificateAndKey, TlsError> {
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(|source| unreadable(cert, source))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| unreadable(key, source))?;
    Ok((chain, private))
}

fn unreadable(path: &Path, source: pem::Error) -> TlsError {
    TlsError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Fails if the key is not that of the certificate.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, name: &str) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let signed = params.self_signed(&key).unwrap();
        crate::private_file::write(&dir.join("cert.pem"), &signed.pem()).unwrap();
        crate::private_file::write(&dir.join("key.pem"), &key.serialize_pem()).unwrap();
    }

    fn settings(dir: &Path) -> TlsSettings {
        let file = |name| dir.join(name).to_str().map(str::to_owned);
        TlsSettings {
            mode: None,
            cert: file("cert.pem"),
            key: file("key.pem"),
        }
    }

    #[test]
    fn a_changed_certificate_is_taken_up_and_a_broken_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "a.test");
        let tls = Tls::open(&settings(dir.path()), dir.path(), "").unwrap().unwrap();
        let first = tls.config();
        assert!(Arc::ptr_eq(&first, &tls.config()), "an unchanged one is not read again");
        put(dir.path(), "b.test");
        let second = tls.config();
        assert!(!Arc::ptr_eq(&first, &second));
        let path = dir.path().join("key.pem");
        crate::private_file::write(&path, "no key\n").unwrap();
        assert!(Arc::ptr_eq(&second, &tls.config()), "a broken one is not taken up");
        crate::private_file::write(&path, &rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(Arc::ptr_eq(&second, &tls.config()), "nor is the key of another one");
        std::fs::remove_file(&path).unwrap();
        assert!(Arc::ptr_eq(&second, &tls.config()), "nor is a missing one");
        put(dir.path(), "c.test");
        assert!(!Arc::ptr_eq(&second, &tls.config()));
    }

    #[test]
    fn a_certificate_that_could_not_be_read_for_once_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "a.test");
        let tls = Tls::open(&settings(dir.path()), dir.path(), "").unwrap().unwrap();
        let first = tls.config();
        put(dir.path(), "b.test");
        let full = pem::Error::Io(std::io::Error::from_raw_os_error(
            rustix::io::Errno::MFILE.raw_os_error(),
        ));
        let version = tls.source.version(UnixTime::now());
        let failed = Err(unreadable(dir.path(), full));
        tls.current.lock().unwrap().take_up(failed, version);
        assert!(!Arc::ptr_eq(&first, &tls.config()));
    }

    #[test]
    fn a_server_does_not_start_without_a_certificate_that_it_can_use() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Tls::open(&settings(dir.path()), dir.path(), "");
        assert!(matches!(open(), Err(TlsError::Read { .. })));
        put(dir.path(), "a.test");
        assert!(open().unwrap().is_some());
        let other = rcgen::KeyPair::generate().unwrap();
        crate::private_file::write(&dir.path().join("key.pem"), &other.serialize_pem()).unwrap();
        assert!(matches!(open(), Err(TlsError::Pair { .. })));
        assert!(Tls::open(&TlsSettings::default(), dir.path(), "").unwrap().is_none());
    }
}
