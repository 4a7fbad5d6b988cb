//! TLS for the tests: an authority of their own, a client, and a front that speaks https for a server that does not.

use anyhow::Result;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// An authority of the tests' own, as PEM, and a certificate by it for this name.
pub fn certificate(name: &str) -> Result<(String, Arc<ServerConfig>)> {
    let (authority, signed, key) = sign(name)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![signed.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        );
    Ok((authority, Arc::new(config?)))
}

/// Writes a certificate for this name and its key to these files and returns its authority, as PEM.
pub fn write_certificate(name: &str, [cert, key]: [&Path; 2]) -> Result<String> {
    let (authority, signed, private) = sign(name)?;
    std::fs::write(cert, signed.pem())?;
    std::fs::write(key, private.serialize_pem())?;
    Ok(authority)
}

fn sign(name: &str) -> Result<(String, Certificate, KeyPair)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let named = format!("authority for {name}");
    params.distinguished_name.push(DnType::CommonName, named);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let signed = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &issuer)?;
    Ok((authority, signed, key))
}

/// A connection to a server that this authority vouches for, under this name. It offers HTTP/2 as well.
pub fn connect(
    authority: &str,
    name: &str,
    address: SocketAddr,
) -> Result<StreamOwned<ClientConnection, std::net::TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned())?)?;
    let mut stream = crate::server::connect(address)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(client, stream))
}

/// Speaks https and passes on what it hears to a server that speaks http. It ends when it is dropped.
#[derive(Debug)]
pub struct Front {
    pub address: SocketAddr,
    _runtime: Runtime,
}

impl Front {
    pub fn start(config: Arc<ServerConfig>, to: SocketAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(Arc::clone(&config));
                tokio::spawn(async move { pass_on(acceptor, client, to).await.ok() });
            }
        });
        Ok(Self {
            address,
            _runtime: runtime,
        })
    }
}

async fn pass_on(acceptor: TlsAcceptor, client: TcpStream, to: SocketAddr) -> Result<()> {
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(to).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
