//! SET, RESET and SHOW in all their forms (VariableSetStmt, VariableResetStmt and VariableShowStmt in gram.y).

use crate::sql::command::Command;
use crate::sql::command::TransactionModes;
use crate::sql::command::modes;
use crate::sql::lexer::TokenKind;
use crate::sql::literal;
use crate::sql::names;
use crate::sql::reader::Reader;

/// Behind SET.
pub(crate) fn set(reader: &mut Reader<'_>) -> Option<Command> {
    if let Some(command) = generic(reader, false) {
        return Some(command);
    }
    if reader.words(&["session", "characteristics", "as", "transaction"]) {
        return some_modes(reader).map(Command::SetCharacteristics);
    }
    if reader.word("constraints") {
        return constraints(reader);
    }
    if let Some(command) = special(reader, false) {
        return command;
    }
    let local = reader.word("local");
    if !local && !reader.word("session") {
        return None;
    }
    if let Some(command) = generic(reader, local) {
        return Some(command);
    }
    if reader.words(&["session", "characteristics", "as", "transaction"]) {
        return some_modes(reader).map(Command::SetCharacteristics);
    }
    special(reader, local).flatten()
}

/// `ALL | names` and DEFERRED or IMMEDIATE.
fn constraints(reader: &mut Reader<'_>) -> Option<Command> {
    let last = reader.tokens.last()?;
    let fits = last.is_word(reader.text, "deferred") || last.is_word(reader.text, "immediate");
    let list = reader.tokens.len() > 1;
    reader.skip(reader.tokens.len());
    (fits && list).then_some(Command::SetConstraints)
}

fn some_modes(reader: &mut Reader<'_>) -> Option<TransactionModes> {
    if reader.is_done() { None } else { modes(reader) }
}

/// `name TO value`, `a.b = value, value`, `name TO DEFAULT`.
fn generic(reader: &mut Reader<'_>, local: bool) -> Option<Command> {
    let mut ahead = *reader;
    let name = variable_name(&mut ahead)?;
    if !ahead.word("to") && !ahead.symbol("=") {
        return None;
    }
    let value = if ahead.word("default") { None } else { Some(value_list(&mut ahead)?) };
    *reader = ahead;
    Some(Command::Set { local, name, value })
}

/// var_name: names of variables do not differ by case, quoted or not.
fn variable_name(reader: &mut Reader<'_>) -> Option<String> {
    let mut name = reader.name()?.to_ascii_lowercase();
    while reader.symbol(".") {
        name.push('.');
        name.push_str(&reader.name()?.to_ascii_lowercase());
    }
    Some(name)
}

/// var_list, as written.
fn value_list(reader: &mut Reader<'_>) -> Option<String> {
    let first = reader.peek()?.range().start;
    loop {
        let end = value(reader)?;
        if !reader.symbol(",") {
            return reader.text.get(first..end).map(str::to_owned);
        }
    }
}

/// var_value: a word, a string, or a number with a sign; where it ends.
fn value(reader: &mut Reader<'_>) -> Option<usize> {
    let signed = reader.symbol("-") || reader.symbol("+");
    let token = reader.peek()?;
    let word = token.text(reader.text);
    let fits = match token.kind {
        TokenKind::Integer | TokenKind::Decimal => true,
        TokenKind::Word => {
            let constant = ["true", "false", "on"].iter().any(|constant| word.eq_ignore_ascii_case(constant));
            !signed && (constant || !names::is_reserved(word))
        }
        TokenKind::QuotedIdent | TokenKind::String => !signed,
        TokenKind::BitString | TokenKind::Param | TokenKind::Operator | TokenKind::Punctuation => false,
    };
    reader.skip(1);
    fits.then_some(token.range().end)
}

/// The forms with key words; `Some(None)` if one has begun and does not fit.
fn special(reader: &mut Reader<'_>, local: bool) -> Option<Option<Command>> {
    let made = |name: &str, value: Option<Option<String>>| {
        Some(value.map(|value| Command::Set { local, name: name.to_owned(), value }))
    };
    if reader.words(&["transaction", "snapshot"]) {
        return Some(snapshot(reader));
    }
    if reader.word("transaction") {
        return Some(some_modes(reader).map(Command::SetTransaction));
    }
    if reader.words(&["time", "zone"]) {
        return made("timezone", zone(reader));
    }
    if reader.word("names") {
        let empty = reader.is_done();
        return made("client_encoding", if empty { Some(None) } else { string_or_default(reader) });
    }
    if reader.word("schema") {
        return made("search_path", string(reader).map(Some));
    }
    if reader.word("role") {
        return made("role", word_or_string(reader).map(Some));
    }
    if reader.words(&["session", "authorization"]) {
        let default = reader.word("default");
        let value = if default { Some(None) } else { word_or_string(reader).map(Some) };
        return made("session_authorization", value);
    }
    if reader.words(&["xml", "option"]) {
        let fits = reader.word_at(0, "document") || reader.word_at(0, "content");
        return made("xmloption", if fits { word_or_string(reader).map(Some) } else { None });
    }
    None
}

fn snapshot(reader: &mut Reader<'_>) -> Option<Command> {
    let token = reader.token(TokenKind::String)?;
    // How backslashes are read depends on a setting that is not known here; snapshot names have none.
    let name = literal::string_value(reader.text, token.range(), true)?;
    let modes = TransactionModes { snapshot: Some(name.into_owned()), ..TransactionModes::default() };
    Some(Command::SetTransaction(modes))
}

/// zone_value; DEFAULT and LOCAL are the default.
fn zone(reader: &mut Reader<'_>) -> Option<Option<String>> {
    if reader.word("default") || reader.word("local") {
        return Some(None);
    }
    if reader.word_at(0, "interval") {
        let range = reader.rest()?;
        let kinds = [TokenKind::Word, TokenKind::String, TokenKind::Integer, TokenKind::Punctuation];
        let fits = reader.tokens.iter().all(|token| kinds.contains(&token.kind))
            && reader.tokens.iter().filter(|token| token.kind == TokenKind::String).count() == 1;
        reader.skip(reader.tokens.len());
        return if fits { Some(reader.text.get(range).map(str::to_owned)) } else { None };
    }
    let start = reader.peek()?.range().start;
    let end = value(reader)?;
    Some(reader.text.get(start..end).map(str::to_owned))
}

fn string(reader: &mut Reader<'_>) -> Option<String> {
    let text = reader.text;
    reader.token(TokenKind::String).map(|token| token.text(text).to_owned())
}

fn string_or_default(reader: &mut Reader<'_>) -> Option<Option<String>> {
    if reader.word("default") { Some(None) } else { string(reader).map(Some) }
}

/// NonReservedWord_or_Sconst, as written.
fn word_or_string(reader: &mut Reader<'_>) -> Option<String> {
    let token = reader.peek()?;
    let word = token.text(reader.text);
    let fits = match token.kind {
        TokenKind::Word => !names::is_reserved(word),
        TokenKind::QuotedIdent | TokenKind::String => true,
        _ => false,
    };
    reader.skip(1);
    fits.then(|| word.to_owned())
}

/// The variables that RESET and SHOW name by several words.
fn named_by_words(reader: &mut Reader<'_>) -> Option<&'static str> {
    let forms = [
        (["time", "zone"].as_slice(), "timezone"),
        (["transaction", "isolation", "level"].as_slice(), "transaction_isolation"),
        (["session", "authorization"].as_slice(), "session_authorization"),
    ];
    forms.into_iter().find(|(words, _)| reader.words(words)).map(|(_, name)| name)
}

/// Behind RESET.
pub(crate) fn reset(reader: &mut Reader<'_>) -> Option<Command> {
    if reader.word("all") {
        return Some(Command::ResetAll);
    }
    named_by_words(reader).map(str::to_owned).or_else(|| variable_name(reader)).map(Command::Reset)
}

/// Behind SHOW.
pub(crate) fn show(reader: &mut Reader<'_>) -> Option<Command> {
    if reader.word("all") {
        return Some(Command::Show("all".to_owned()));
    }
    named_by_words(reader).map(str::to_owned).or_else(|| variable_name(reader)).map(Command::Show)
}
