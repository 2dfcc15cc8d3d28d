//! stub
use super::*;
pub fn plan(_s: &Statement, _c: &Context<'_>) -> Plan { Plan::Everywhere(EverywherePlan { shards: OnShards::All, outside_transaction: false, effect: Effect::Write, changes_schema: true }) }
