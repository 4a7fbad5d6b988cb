//! A CA of the data directory's own, and the certificate that it signs for the server's names. In `tls/`:
//!
//! - `ca.pem`: what clients trust. It does not expire; it may only sign for the domain, `localhost` and 127.0.0.1.
//! - `ca-key.pem`: its key.
//! - `server.pem`: the server's certificate with its key, in one file, so that the two always belong together.

use super::{TlsError, provider, read_pair, server_config};
use crate::private_file;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::OffsetDateTime;

const VALID_DAYS: i64 = 90;
/// A certificate is renewed when it is valid for less than this.
const RENEW_SECONDS: u64 = 30 * 86_400;
/// For clients whose clocks are behind.
const BACKDATED_DAYS: i64 = 1;

#[derive(Debug)]
pub(super) struct LocalCa {
    dir: PathBuf,
    domain: String,
}

impl LocalCa {
    pub(super) fn new(home: &Path, domain: &str) -> Self {
        Self {
            dir: home.join("tls"),
            domain: domain.to_owned(),
        }
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    fn authority_key(&self) -> PathBuf {
        self.dir.join("ca-key.pem")
    }

    fn server(&self) -> PathBuf {
        self.dir.join("server.pem")
    }

    /// The stored certificate, or a new one if clients would not accept that for long. The CA stays as long as it can sign
    /// for the domain: clients have its certificate.
    pub(super) fn config(&self, now: UnixTime) -> Result<Arc<ServerConfig>, TlsError> {
        if let Some(config) = self.stored(now) {
            return Ok(config);
        }
        if let Some(key) = self.stored_key() {
            self.sign(key, now)?;
            if let Some(config) = self.stored(now) {
                tracing::info!(domain = self.domain, "created a new certificate for HTTPS");
                return Ok(config);
            }
        }
        self.sign(self.new_authority()?, now)?;
        let config = self.stored(now).ok_or_else(|| TlsError::Domain(self.domain.clone()))?;
        tracing::info!(file = %self.authority().display(), "created a CA; clients have to trust it");
        Ok(config)
    }

    fn stored(&self, now: UnixTime) -> Option<Arc<ServerConfig>> {
        let authority = CertificateDer::from_pem_file(self.authority()).ok()?;
        let (chain, key) = read_pair(&self.server(), &self.server()).ok()?;
        let later = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.as_secs() + RENEW_SECONDS));
        self.verify(&authority, &chain, now)?;
        self.verify(&authority, &chain, later)?;
        server_config(chain, key).ok()
    }

    /// As a client does that trusts the CA.
    fn verify(&self, authority: &CertificateDer<'_>, chain: &[CertificateDer<'_>], at: UnixTime) -> Option<()> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).ok()?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .ok()?;
        let (server, rest) = chain.split_first()?;
        for name in [self.domain.clone(), format!("api.{}", self.domain)] {
            let name = ServerName::try_from(name).ok()?;
            verifier.verify_server_cert(server, rest, &name, &[], at).ok()?;
        }
        Some(())
    }

    fn stored_key(&self) -> Option<KeyPair> {
        KeyPair::from_pem(&std::fs::read_to_string(self.authority_key()).ok()?).ok()
    }

    fn new_authority(&self) -> Result<KeyPair, TlsError> {
        let (key, authority) = self
            .authority_params()
            .and_then(|params| {
                let key = KeyPair::generate()?;
                let authority = params.self_signed(&key)?;
                Ok((key, authority))
            })
            .map_err(|source| self.not_created(source))?;
        self.write(&self.authority_key(), &key.serialize_pem())?;
        self.write(&self.authority(), &authority.pem())?;
        Ok(key)
    }

    fn sign(&self, authority: KeyPair, now: UnixTime) -> Result<(), TlsError> {
        let signed = self.authority_params().and_then(|params| {
            let key = KeyPair::generate()?;
            let signed = self
                .server_params(now)?
                .signed_by(&key, &Issuer::new(params, authority))?;
            Ok(signed.pem() + &key.serialize_pem())
        });
        let signed = signed.map_err(|source| self.not_created(source))?;
        self.write(&self.server(), &signed)
    }

    /// A stolen key of the CA is of no use for other names.
    fn authority_params(&self) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "Atoll local CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![
                GeneralSubtree::DnsName(self.domain.clone()),
                GeneralSubtree::DnsName("localhost".to_owned()),
                GeneralSubtree::IpAddress(CidrSubnet::V4([127, 0, 0, 1], [255; 4])),
            ],
            excluded_subtrees: Vec::new(),
        });
        Ok(params)
    }

    fn server_params(&self, now: UnixTime) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(vec![
            self.domain.clone(),
            format!("*.{}", self.domain),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
        ])?;
        let now = time::Duration::seconds(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let day = |days| OffsetDateTime::UNIX_EPOCH.saturating_add(now.saturating_add(time::Duration::days(days)));
        params.not_before = day(-BACKDATED_DAYS);
        params.not_after = day(VALID_DAYS);
        params.distinguished_name.push(DnType::CommonName, "Atoll");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python's strict checks want it.
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), TlsError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.and_then(|()| private_file::write(path, text))
            .map_err(|source| TlsError::Write {
                path: path.to_owned(),
                source,
            })
    }

    fn not_created(&self, source: rcgen::Error) -> TlsError {
        TlsError::Create {
            domain: self.domain.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: u64 = 1_800_000_000;

    fn day(day: u64) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW + day * 86_400))
    }

    fn read(ca: &LocalCa) -> [String; 2] {
        [ca.authority(), ca.server()].map(|path| std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn a_certificate_is_renewed_a_month_before_it_expires_by_the_same_authority() {
        let home = tempfile::tempdir().unwrap();
        let ca = LocalCa::new(home.path(), "sbx.example.org");
        ca.config(day(0)).unwrap();
        let first = read(&ca);
        ca.config(day(59)).unwrap();
        assert_eq!(read(&ca), first, "it is valid for more than a month");
        ca.config(day(61)).unwrap();
        let [authority, server] = read(&ca);
        assert_eq!(authority, first[0]);
        assert_ne!(server, first[1]);
        ca.config(day(120)).unwrap();
        assert_eq!(read(&ca), [authority, server]);
    }

    #[test]
    fn an_authority_signs_for_its_own_domain_only() {
        let home = tempfile::tempdir().unwrap();
        let ca = LocalCa::new(home.path(), "sbx.example.org");
        ca.config(day(0)).unwrap();
        let first = read(&ca);
        let other = LocalCa::new(home.path(), "other.example.org");
        other.sign(other.stored_key().unwrap(), day(0)).unwrap();
        assert!(
            other.stored(day(0)).is_none(),
            "clients refuse what it signs for another"
        );
        other.config(day(0)).unwrap();
        assert_ne!(read(&other)[0], first[0]);
    }

    #[test]
    fn files_are_private_and_damaged_ones_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        let ca = LocalCa::new(home.path(), "sbx.localhost");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        for path in [ca.authority(), ca.authority_key(), ca.server()] {
            ca.config(day(0)).unwrap();
            assert_eq!((mode(&ca.dir), mode(&path)), (0o700, 0o600));
            std::fs::write(&path, "damaged").unwrap();
            ca.config(day(0)).unwrap();
        }
        assert!(ca.stored(day(0)).is_some());
    }

    #[test]
    fn a_domain_without_a_dot_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let refused = LocalCa::new(home.path(), "localhost").config(day(0)).unwrap_err();
        assert!(matches!(refused, TlsError::Domain(_)), "{refused}");
    }
}
