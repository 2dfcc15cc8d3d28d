//! TLS both ways by rustls (ring): our certificate for clients, and libpq's sslmode rules for servers.
//!
//! What differs from libpq: a certificate without subjectAltName matches no host name (libpq falls back to the common
//! name), and certificate revocation lists are not read.

mod end_point;

use crate::config::ServerTls;
use crate::config::SslMode;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
pub use end_point::end_point;
use rustls::ClientConfig;
use rustls::DigitallySignedStruct;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::crypto::verify_tls12_signature;
use rustls::crypto::verify_tls13_signature;
use rustls::server::ParsedCertificate;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::ServerName;
use rustls_pki_types::UnixTime;
use rustls_pki_types::pem::PemObject;
use std::path::Path;
use std::sync::Arc;

/// PostgreSQL's name in ALPN (PG_ALPN_PROTOCOL), needed by clients with sslnegotiation=direct.
const ALPN: &[u8] = b"postgresql";

/// Our side towards clients.
#[derive(Clone, Debug)]
pub struct Acceptor {
    pub config: Arc<ServerConfig>,
    /// What a client binds SCRAM to (see [`end_point`]); `None` where our certificate has no such thing.
    pub end_point: Option<Vec<u8>>,
}

/// Whether the client has agreed on PostgreSQL's protocol by ALPN; one with sslnegotiation=direct must.
pub fn has_alpn(stream: &tokio_rustls::TlsStream<tokio::net::TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(ALPN)
}

/// For our clients: reads the certificate chain and the private key (PEM files).
///
/// # Errors
/// A file cannot be read, holds nothing of the kind, or key and certificate do not belong together.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<Acceptor> {
    let chain = certificates(certificate)?;
    let end_point = chain.first().and_then(|own| end_point(own));
    let wrong_key = |error: &dyn std::fmt::Display| wrong_file("private key", key, error);
    let private = PrivateKeyDer::from_pem_slice(&read("private key", key)?).map_err(|error| wrong_key(&error))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(format!("TLS is not available: {error}")))?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, private).map_err(|error| {
        wrong_key(&error).hint(format!("It must belong to the certificate in {}.", certificate.display()))
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Acceptor { config: Arc::new(config), end_point })
}

/// For our connections to one server; `None` with sslmode=disable. By libpq's rules: prefer and require encrypt without
/// looking at the certificate (require does when there is a root certificate, as verify-ca), verify-ca looks at the
/// chain, verify-full at the host name too.
///
/// # Errors
/// The root certificate file cannot be read, or is missing where it is needed.
pub fn client_config(tls: &ServerTls) -> Result<Option<Arc<ClientConfig>>> {
    let root = tls.root_certificate.as_deref();
    let verify = match (tls.mode, root) {
        (SslMode::Disable, _) => return Ok(None),
        (SslMode::Prefer, _) | (SslMode::Require, None) => Verify::Nothing,
        (SslMode::Require | SslMode::VerifyCa, Some(root)) => Verify::Chain(Roots::read(root)?),
        (SslMode::VerifyFull, Some(root)) => Verify::ChainAndName(Roots::read(root)?),
        (SslMode::VerifyCa | SslMode::VerifyFull, None) => {
            return Err(Error::new(codes::CONNECTION_FAILURE, "sslmode verify-ca and verify-full need sslrootcert"));
        }
    };
    let provider = provider();
    let verifier = Arc::new(Verifier { verify, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(format!("TLS is not available: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Some(Arc::new(config)))
}

/// The host of a URL as TLS names it: a DNS name or an IP address.
///
/// # Errors
/// A name that is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::new(codes::CONNECTION_FAILURE, format!("\"{host}\" is not a host name that TLS can verify"))
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| wrong_file(what, path, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = read("certificate", path)?;
    let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(wrong_file("certificate", path, &"no certificate in PEM form in it")),
        Err(error) => Err(wrong_file("certificate", path, &error)),
    }
}

fn wrong_file(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(codes::CONNECTION_FAILURE, format!("could not load {what} file \"{}\": {error}", path.display()))
}

/// The certificates of one sslrootcert file.
#[derive(Debug)]
struct Roots {
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn read(path: &Path) -> Result<Roots> {
        let certificates = certificates(path)?;
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| wrong_file("root certificate", path, &error))?;
        }
        Ok(Roots { store, certificates })
    }
}

#[derive(Debug)]
enum Verify {
    Nothing,
    Chain(Roots),
    ChainAndName(Roots),
}

#[derive(Debug)]
struct Verifier {
    verify: Verify,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn chain(
        &self,
        roots: &Roots,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<(), rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let verified =
            verify_server_cert_signed_by_trust_anchor(&certificate, &roots.store, intermediates, now, algorithms);
        match verified {
            // A server's self-signed certificate as its own root, as libpq takes it: webpki refuses it as a CA's. Its
            // dates are looked at before that.
            Err(error) if !is_about_dates(&error) && roots.certificates.iter().any(|root| root == end_entity) => Ok(()),
            verified => verified,
        }
    }
}

fn is_about_dates(error: &rustls::Error) -> bool {
    use rustls::CertificateError;
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        match &self.verify {
            Verify::Nothing => {}
            Verify::Chain(roots) => self.chain(roots, end_entity, intermediates, now)?,
            Verify::ChainAndName(roots) => {
                self.chain(roots, end_entity, intermediates, now)?;
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::acceptor;
    use super::client_config;
    use super::server_name;
    use crate::config::ServerTls;
    use crate::config::SslMode;
    use rcgen::BasicConstraints;
    use rcgen::CertificateParams;
    use rcgen::CertifiedIssuer;
    use rcgen::IsCa;
    use rcgen::KeyPair;
    use std::path::Path;
    use std::path::PathBuf;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::TlsConnector;

    struct Files {
        root: PathBuf,
        certificate: PathBuf,
        key: PathBuf,
        self_signed: PathBuf,
        self_signed_key: PathBuf,
    }

    fn files(folder: &Path) -> Files {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["db.example".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names.clone()).unwrap().signed_by(&key, &authority).unwrap();
        let mut own = CertificateParams::new(names).unwrap();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own_key = KeyPair::generate().unwrap();
        let own = own.self_signed(&own_key).unwrap();
        Files {
            root: write("root.pem", authority.pem()),
            certificate: write("cert.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
            self_signed: write("self.pem", own.pem()),
            self_signed_key: write("self.key", own_key.serialize_pem()),
        }
    }

    async fn shake(certificate: &Path, key: &Path, mode: SslMode, root: Option<&Path>, host: &str) -> bool {
        let tls = ServerTls { mode, root_certificate: root.map(Path::to_path_buf) };
        let accepting = TlsAcceptor::from(acceptor(certificate, key).unwrap().config);
        let connector = TlsConnector::from(client_config(&tls).unwrap().unwrap());
        let (client, server) = tokio::io::duplex(65_536);
        let connected = connector.connect(server_name(host).unwrap(), client);
        let (accepted, connected) = tokio::join!(accepting.accept(server), connected);
        accepted.is_ok() && connected.is_ok_and(|stream| stream.get_ref().1.alpn_protocol() == Some(super::ALPN))
    }

    #[tokio::test]
    async fn modes_verify_what_libpq_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let (cert, key, root) = (&files.certificate, &files.key, Some(files.root.as_path()));
        let own = Some(files.self_signed.as_path());
        for (mode, root, host, works) in [
            (SslMode::Prefer, None, "other", true),
            (SslMode::Prefer, own, "other", true),
            (SslMode::Require, None, "other", true),
            (SslMode::Require, root, "other", true),
            (SslMode::Require, own, "other", false),
            (SslMode::VerifyCa, root, "other", true),
            (SslMode::VerifyCa, own, "db.example", false),
            (SslMode::VerifyFull, root, "db.example", true),
            (SslMode::VerifyFull, root, "127.0.0.1", true),
            (SslMode::VerifyFull, root, "other", false),
            (SslMode::VerifyFull, own, "db.example", false),
        ] {
            assert_eq!(shake(cert, key, mode, root, host).await, works, "{mode:?} {root:?} {host}");
        }
        // a server's self-signed certificate is its own root
        let (cert, key) = (&files.self_signed, &files.self_signed_key);
        assert!(shake(cert, key, SslMode::VerifyCa, own, "other").await);
        assert!(shake(cert, key, SslMode::VerifyFull, own, "db.example").await);
        assert!(!shake(cert, key, SslMode::VerifyFull, own, "other").await);
        assert!(!shake(cert, key, SslMode::VerifyFull, root, "db.example").await);
    }

    #[test]
    fn files_that_do_not_serve_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        assert!(acceptor(&files.certificate, &files.self_signed_key).is_err());
        assert!(acceptor(&files.key, &files.key).is_err());
        assert!(acceptor(Path::new("/none"), &files.key).unwrap_err().message.contains("/none"));
        let tls = |mode, root: Option<&Path>| ServerTls { mode, root_certificate: root.map(Path::to_path_buf) };
        assert!(client_config(&tls(SslMode::Disable, None)).unwrap().is_none());
        assert!(client_config(&tls(SslMode::VerifyFull, None)).is_err());
        assert!(client_config(&tls(SslMode::VerifyCa, Some(&files.key))).is_err());
        assert!(server_name("[nonsense").is_err());
    }
}
