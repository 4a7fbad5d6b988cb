//! TLS for servers of the tests: an authority of their own, and a front that speaks https for a server that does not.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// An authority of the tests' own, as PEM, and a certificate by it for this name.
pub fn certificate(name: &str) -> Result<(String, Arc<ServerConfig>)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let named = format!("authority for {name}");
    params.distinguished_name.push(DnType::CommonName, named);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec![name.to_owned()])?;
    let signed = params.signed_by(&key, &issuer)?;
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
