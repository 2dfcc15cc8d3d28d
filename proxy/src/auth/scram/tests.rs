//! Our server side against postgres-protocol's client side, and against an example with known bytes.
#![allow(clippy::unwrap_used)]

use super::MECHANISM;
use super::MECHANISM_PLUS;
use super::ServerScram;
use super::Verifier;
use super::initial_response;
use crate::error::Result;
use crate::error::codes;
use postgres_protocol::authentication::sasl::ChannelBinding;
use postgres_protocol::authentication::sasl::ScramSha256;
use std::sync::Arc;

/// A SASLInitialResponse.
fn initial(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let length = i32::try_from(data.len()).unwrap();
    [mechanism.as_bytes(), &[0], &length.to_be_bytes(), data].concat()
}

fn log_in(verifier: Verifier, password: &str, binding: ChannelBinding) -> Result<()> {
    log_in_with(MECHANISM, None, verifier, password, binding)
}

fn log_in_with(
    mechanism: &str,
    end_point: Option<Vec<u8>>,
    verifier: Verifier,
    password: &str,
    binding: ChannelBinding,
) -> Result<()> {
    let mut client = ScramSha256::new(password.as_bytes(), binding);
    let mut server = ServerScram::start("app", Arc::new(verifier), end_point);
    let challenge = server.first(&initial(mechanism, client.message()))?;
    client.update(&challenge).unwrap();
    let end = server.finish(client.message())?;
    client.finish(&end).unwrap();
    Ok(())
}

#[test]
fn the_right_password_and_no_other() {
    for password in ["secret", "with space", "pässwörd\u{a0}x", "IX\u{ad}"] {
        let verifier = Verifier::of_password(password).unwrap();
        log_in(verifier.clone(), password, ChannelBinding::unsupported()).unwrap();
        log_in(verifier.clone(), password, ChannelBinding::unrequested()).unwrap();
        let error = log_in(verifier, "other", ChannelBinding::unsupported()).unwrap_err();
        assert_eq!(error.code, codes::INVALID_PASSWORD);
        assert_eq!(error.message, "password authentication failed for user \"app\"");
    }
    let error = log_in(Verifier::of_password("x").unwrap(), "x", ChannelBinding::tls_server_end_point(vec![1]));
    assert_eq!(error.unwrap_err().code, codes::PROTOCOL_VIOLATION);
}

#[test]
fn a_login_is_bound_to_the_channel() {
    let verifier = Verifier::of_password("secret").unwrap();
    let bound = |mechanism: &str, end_point: Option<&[u8]>, binding| {
        log_in_with(mechanism, end_point.map(<[u8]>::to_vec), verifier.clone(), "secret", binding)
    };
    let to = |data: &[u8]| ChannelBinding::tls_server_end_point(data.to_vec());
    bound(MECHANISM_PLUS, Some(b"cert"), to(b"cert")).unwrap();
    bound(MECHANISM, Some(b"cert"), ChannelBinding::unsupported()).unwrap();
    let code = |result: Result<()>| result.unwrap_err().code;
    // somebody in the middle, with a certificate of its own
    assert_eq!(code(bound(MECHANISM_PLUS, Some(b"cert"), to(b"other"))), codes::INVALID_AUTHORIZATION);
    // somebody who has taken the offer away
    assert_eq!(code(bound(MECHANISM, Some(b"cert"), ChannelBinding::unrequested())), codes::INVALID_AUTHORIZATION);
    assert_eq!(code(bound(MECHANISM_PLUS, None, to(b"cert"))), codes::PROTOCOL_VIOLATION);
    assert_eq!(code(bound(MECHANISM, Some(b"cert"), to(b"cert"))), codes::PROTOCOL_VIOLATION);
    assert_eq!(code(bound(MECHANISM_PLUS, Some(b"cert"), ChannelBinding::unsupported())), codes::PROTOCOL_VIOLATION);
    let start = |end_point| ServerScram::start("app", Arc::new(verifier.clone()), end_point);
    assert_eq!(start(None).offer(), b"SCRAM-SHA-256\0\0");
    assert_eq!(start(Some(vec![1])).offer(), b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
}

#[test]
fn saslprep_maps_equal_passwords_to_one() {
    let verifier = Verifier::of_password("I\u{ad}X").unwrap();
    log_in(verifier, "IX", ChannelBinding::unsupported()).unwrap();
}

#[test]
fn users_who_do_not_exist_look_like_others_and_never_get_in() {
    let seed = [7; 32];
    let fake = Verifier::doomed("nobody", &seed);
    assert_eq!(fake, Verifier::doomed("nobody", &seed));
    assert_ne!(fake, Verifier::doomed("nobody2", &seed));
    let error = log_in(fake, "x", ChannelBinding::unsupported()).unwrap_err();
    assert_eq!(error.code, codes::INVALID_PASSWORD);
}

/// RFC 7677, section 3.
#[test]
fn known_bytes() {
    let salted = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let mut server = ServerScram::start("user", Arc::new(Verifier::parse(salted).unwrap()), None);
    let first =
        server.first_with(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", false, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
    let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(String::from_utf8(first).unwrap(), expected);
    let last =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let end = server.finish(last.as_bytes()).unwrap();
    assert_eq!(end, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert!(server.finish(last.as_bytes()).is_err());
}

#[test]
fn malformed_messages_are_refused() {
    let start = || ServerScram::start("app", Arc::new(Verifier::doomed("app", &[0; 32])), None);
    let firsts: [&[u8]; 14] = [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"n,a=x,n=,r=a",
        b"p=tls-unique,,n=,r=a",
        b"x,,n=,r=a",
        b"n,,m=x,n=,r=a",
        b"n,,n=",
        b"n,,n=,r=",
        b"n,,n=,r=\xff",
        b"n,,n=,r=a\0",
        b"n,,r=a",
        b"n,,n=,x=a",
    ];
    for first in firsts {
        assert!(start().first(&initial(MECHANISM, first)).unwrap_err().is_fatal(), "{first:?}");
    }
    let finals = ["", "c=biws,r=ab", "c=biws,r=ab,p=x", "c=biws,r=ab,p=AAAA", "c=eSws,r=ab,p=", "p=", ",p=,p="];
    for last in finals {
        let mut server = start();
        server.first_with(b"n,,n=,r=a", false, "b").unwrap();
        assert!(server.finish(last.as_bytes()).unwrap_err().is_fatal(), "{last}");
    }
    let proof = format!("p={}=", "A".repeat(43));
    for last in ["c=eSws,r=ab", "c=biws,r=a", "c=biws", "r=ab,c=biws"] {
        let mut server = start();
        server.first_with(b"n,,n=,r=a", false, "b").unwrap();
        let error = server.finish(format!("{last},{proof}").as_bytes()).unwrap_err();
        assert_eq!(error.code, codes::PROTOCOL_VIOLATION, "{last}");
    }
    assert!(start().finish(b"c=biws,r=ab,p=AAAA").is_err());
}

#[test]
fn verifiers_are_checked() {
    for wrong in
        ["", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA==", "md5abc", "SCRAM-SHA-256$x"]
    {
        assert_eq!(Verifier::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn initial_responses() {
    assert_eq!(initial_response(b"SCRAM-SHA-256\0\0\0\0\x03n,,").unwrap(), (MECHANISM.as_bytes(), &b"n,,"[..]));
    let wrong: [&[u8]; 5] = [
        b"",
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0",
        b"SCRAM-SHA-256\0\xff\xff\xff\xff",
        b"SCRAM-SHA-256\0\0\0\0\x04n,,",
    ];
    for body in wrong {
        assert!(initial_response(body).unwrap_err().is_fatal(), "{body:?}");
    }
}
