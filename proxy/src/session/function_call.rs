//! FunctionCall messages, which libpq still sends for large objects (PQfn; HandleFunctionRequest in fastpath.c).

use crate::error::Error;
use crate::plan::PinReason;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::wire::frontend;
use crate::wire::read::Reader;
use bytes::BufMut;

/// The functions of large objects (pg_proc.dat): what they keep on a connection ends with the transaction.
const LARGE_OBJECTS: [u32; 15] = [715, 764, 765, 767, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171];
const TRUNCATE_64: u32 = 3172;

impl Session {
    /// Runs it on the home shard, where the large objects of a client are. Any other function is opaque: that is only
    /// right where one shard has everything.
    pub(super) async fn function_call(&mut self, body: &[u8]) -> Outcome {
        if !self.join_pipeline().await? {
            return Ok(());
        }
        let outcome = self.call(body).await;
        self.answer_query(outcome).await
    }

    async fn call(&mut self, body: &[u8]) -> Outcome {
        self.refuse_if_failed()?;
        let function = Reader::new(body).u32()?;
        let known = LARGE_OBJECTS.contains(&function) || function == TRUNCATE_64;
        if !known && self.backends.database.config.shards.len() > 1 {
            return Err(Error::unsupported("a function call message over several shards").hint("Use SELECT.").into());
        }
        if self.backends.transaction.is_block() {
            self.join_writers(HOME).await?;
        }
        let outcome = self.forward_message(HOME, |out| {
            frontend::frame(out, frontend::FUNCTION_CALL, |b| b.put_slice(body));
        });
        let outcome = outcome.await;
        if !known {
            self.pin(HOME, PinReason::Opaque);
        }
        outcome
    }
}
