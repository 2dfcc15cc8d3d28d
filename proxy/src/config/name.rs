//! Names written as in SQL: `orders`, `public.Orders` (folded to lower case), `public."Mixed"` (kept as it is).

/// Longest name that PostgreSQL keeps: NAMEDATALEN - 1.
const NAME_BYTES: usize = 63;

/// One name, folded.
///
/// # Errors
/// What is wrong with it, for a message.
pub fn single(text: &str) -> Result<String, String> {
    let mut parts = parts(text)?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(format!("expected one name as in SQL, not \"{text}\"")),
    }
}

/// A column's name: as PostgreSQL stores it, or quoted as in SQL. Not folded, since a key is a list of names and not a
/// piece of SQL: `Key` is the column that was made as `"Key"`.
///
/// # Errors
/// What is wrong with it, for a message.
pub fn column(text: &str) -> Result<String, String> {
    if text.starts_with('"') {
        return single(text);
    }
    check(text, text)?;
    Ok(text.to_owned())
}

/// `name` (schema `public`) or `schema.name`, folded.
///
/// # Errors
/// What is wrong with it, for a message.
pub fn qualified(text: &str) -> Result<(String, String), String> {
    let mut parts = parts(text)?;
    match (parts.pop(), parts.pop(), parts.is_empty()) {
        (Some(name), None, _) => Ok(("public".to_owned(), name)),
        (Some(name), Some(schema), true) => Ok((schema, name)),
        _ => Err(format!("expected \"name\" or \"schema.name\" as in SQL, not \"{text}\"")),
    }
}

fn parts(text: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted).ok_or_else(|| format!("unterminated quoted name in '{text}'"))?,
            None => bare_name(rest),
        };
        check(&name, text)?;
        parts.push(name);
        rest = match after.trim_start() {
            "" => return Ok(parts),
            more => more.strip_prefix('.').ok_or_else(|| not_a_name(text))?.trim_start(),
        };
    }
}

fn check(name: &str, text: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('\0') {
        return Err(not_a_name(text));
    }
    if name.len() > NAME_BYTES {
        return Err(format!("the name \"{name}\" is longer than {NAME_BYTES} bytes"));
    }
    Ok(())
}

fn not_a_name(text: &str) -> String {
    format!("'{text}' is not a name as in SQL (\"quote\" what is not made of letters, digits and underscores)")
}

/// The name after an opening quote (`""` is one quote) and what follows it.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

/// A name without quotes, folded as PostgreSQL's downcase_identifier does for UTF-8: ASCII letters only.
fn bare_name(text: &str) -> (String, &str) {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_part = |c: char| is_start(c) || c.is_ascii_digit() || c == '$';
    if !text.starts_with(is_start) {
        return (String::new(), text);
    }
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (name.to_ascii_lowercase(), rest)
}

/// A name as it must be written in SQL: always quoted.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::qualified;
    use super::quoted;
    use super::single;

    fn pair(schema: &str, name: &str) -> Result<(String, String), String> {
        Ok((schema.to_owned(), name.to_owned()))
    }

    #[test]
    fn names_fold_as_in_sql() {
        assert_eq!(qualified("Orders"), pair("public", "orders"));
        assert_eq!(qualified("Sales.Orders"), pair("sales", "orders"));
        assert_eq!(qualified("public.\"Mixed\""), pair("public", "Mixed"));
        assert_eq!(qualified("\"a.b\".\"c\"\"d\""), pair("a.b", "c\"d"));
        assert_eq!(qualified(" a . b "), pair("a", "b"));
        assert_eq!(qualified("été"), pair("public", "été"));
        assert_eq!(single("Tenant_ID").as_deref(), Ok("tenant_id"));
        assert_eq!(quoted("c\"d"), "\"c\"\"d\"");
    }

    #[test]
    fn what_is_no_name_is_told() {
        for wrong in ["", "a.b.c", "a..b", "a b", "1a", "\"a", "a-b", "\"\"", ".a", "a."] {
            assert!(qualified(wrong).is_err(), "{wrong}");
        }
        assert!(single("a.b").is_err());
        assert!(single(&"x".repeat(64)).is_err());
    }
}
