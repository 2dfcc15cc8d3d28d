//! Triggers that may do anything.

use crate::catalog::Relation;
use crate::catalog::Trigger;
use crate::catalog::Volatility;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::rows::CHOOSE;

/// The trigger or rule of a table that fires at an event (`INSERT`, `TRUNCATE`) and may do anything.
pub fn opaque(relation: &Relation, event: &str, context: &Context<'_>) -> Option<String> {
    let fires = |trigger: &&Trigger| fires(trigger, event) && !is_harmless(trigger, context);
    let trigger = relation.triggers.iter().find(fires)?;
    Some(format!("trigger {} of {}", trigger.name, relation.name))
}

pub fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what}, which may read or write tables on any shard")).hint(format!(
        "Declare its function IMMUTABLE if it is, say where it runs in the configuration, or disable it. {CHOOSE}"
    ))
}

/// Its definition names the event; a name that holds the word makes no difference that matters.
fn fires(trigger: &Trigger, event: &str) -> bool {
    trigger.events.to_ascii_uppercase().contains(event)
}

/// A trigger whose function is declared IMMUTABLE, or in the configuration, or built in.
pub fn is_harmless(trigger: &Trigger, context: &Context<'_>) -> bool {
    if trigger.function.schema == "pg_catalog" {
        return true;
    }
    let functions = &context.catalog.functions;
    let declared =
        functions.declared.iter().any(|d| d.schema == trigger.function.schema && d.name == trigger.function.name);
    let immutable = functions.user.get(&trigger.function.name).is_some_and(|all| {
        all.iter().filter(|f| f.name == trigger.function).all(|f| f.volatility == Volatility::Immutable)
    });
    declared || immutable
}
