//! Names of transactions over several shards: `shardway:<installation>:<decision shard>:<transaction>:<participant>:<hash
//! of the secret>`, under 200 bytes. PostgreSQL's names of prepared transactions are the same for all databases of a
//! server, so the participant is part of it.

use crate::catalog::ShardId;
use crate::control::decision::PREFIX;
use crate::error::Error;
use crate::error::Result;
use sha2::Digest;
use sha2::Sha256;
use std::fmt::Write;

/// One transaction, as its coordinator knows it.
#[derive(Clone, Debug)]
pub struct TransactionName {
    installation: String,
    decision_shard: String,
    transaction: String,
    hash: String,
    /// What proves to the decision shard that the coordinator itself decides.
    pub secret: String,
}

/// The name of a prepared transaction, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedName {
    pub decision_shard: String,
    /// The key of its decision.
    pub key: String,
}

impl TransactionName {
    /// A new one. `installation` and `decision_shard` hold no colon.
    ///
    /// # Errors
    /// XX000 when the system has no random bytes.
    pub fn new(installation: &str, decision_shard: &str) -> Result<TransactionName> {
        let secret = random_hex()?;
        let digest = hex(&Sha256::digest(secret.as_bytes()));
        Ok(TransactionName {
            installation: installation.to_owned(),
            decision_shard: decision_shard.to_owned(),
            transaction: random_hex()?,
            hash: digest.get(..32).unwrap_or_default().to_owned(),
            secret,
        })
    }

    /// Under which its decision is on record.
    pub fn key(&self) -> String {
        format!("{PREFIX}:{}:{}:{}:{}", self.installation, self.decision_shard, self.transaction, self.hash)
    }

    /// What it is called on one participant.
    pub fn gid(&self, participant: ShardId) -> String {
        format!(
            "{PREFIX}:{}:{}:{}:{}:{}",
            self.installation, self.decision_shard, self.transaction, participant.0, self.hash
        )
    }
}

/// `None`: no name of ours.
pub fn parse(gid: &str) -> Option<PreparedName> {
    let parts: Vec<&str> = gid.split(':').collect();
    match parts.as_slice() {
        [PREFIX, installation, decision_shard, transaction, _, hash] => Some(PreparedName {
            decision_shard: (*decision_shard).to_owned(),
            key: format!("{PREFIX}:{installation}:{decision_shard}:{transaction}:{hash}"),
        }),
        _ => None,
    }
}

fn random_hex() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Error::internal("could not generate random bytes"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_name_is_short_and_leads_to_its_decision() {
        let name = TransactionName::new(&"a".repeat(32), &"s".repeat(63)).unwrap();
        let gid = name.gid(ShardId(1023));
        assert!(gid.len() < 200, "{}", gid.len());
        let read = parse(&gid).unwrap();
        assert_eq!((read.key, read.decision_shard), (name.key(), "s".repeat(63)));
        assert_ne!(name.gid(ShardId(0)), name.gid(ShardId(1)));
    }

    #[test]
    fn no_name_is_made_twice() {
        let name = || TransactionName::new("i", "s").unwrap();
        assert_ne!(name().key(), name().key());
        assert_ne!(name().secret, name().secret);
    }

    #[test]
    fn others_names_are_not_ours() {
        for gid in ["", "shardway", "app:1:2:3:4:5", "shardway:1:2:3:4", "shardway:1:2:3:4:5:6"] {
            assert_eq!(parse(gid), None, "{gid}");
        }
    }
}
