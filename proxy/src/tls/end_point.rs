//! The channel binding `tls-server-end-point` (RFC 5929, section 4.1): a hash of the server's certificate.

use sha2::Digest;
use sha2::Sha256;
use sha2::Sha384;
use sha2::Sha512;

/// Signature algorithms by their object identifiers (DER contents), and the hash that each stands for.
const ALGORITHMS: [(&[u8], Hash); 10] = [
    // RSA PKCS #1 with MD5 and SHA-1: the RFC puts SHA-256 in their place.
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], Hash::Sha512),
    // ECDSA with SHA-1, SHA-256, SHA-384, SHA-512
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], Hash::Sha512),
    // DSA with SHA-256
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 2], Hash::Sha256),
];

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// The binding's data for a certificate in DER form; `None` where the RFC names no hash (Ed25519, RSASSA-PSS), as in
/// OpenSSL: channel binding is not offered then.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let oid = signature_algorithm(certificate)?;
    let (_, hash) = ALGORITHMS.iter().find(|(known, _)| *known == oid)?;
    Some(match hash {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { algorithm OBJECT IDENTIFIER, … }, … }`
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    element(algorithm, OBJECT_IDENTIFIER).map(|(oid, _)| oid)
}

/// The contents of a DER element with this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length & 0x7f)?;
        rest = after;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit));
    }
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::end_point;
    use rcgen::CertificateParams;
    use rcgen::KeyPair;
    use sha2::Digest;
    use sha2::Sha256;
    use sha2::Sha384;

    #[test]
    fn the_hash_is_the_signatures() {
        let certificate = |algorithm| {
            let key = KeyPair::generate_for(algorithm).unwrap();
            CertificateParams::new(vec!["db.example".to_owned()]).unwrap().self_signed(&key).unwrap().der().to_vec()
        };
        let p256 = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(end_point(&p256).unwrap(), Sha256::digest(&p256).to_vec());
        let p384 = certificate(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(end_point(&p384).unwrap(), Sha384::digest(&p384).to_vec());
        assert_eq!(end_point(&certificate(&rcgen::PKCS_ED25519)), None);
        for cut in 0..p256.len().min(200) {
            let _ = end_point(p256.get(..cut).unwrap());
        }
    }
}
