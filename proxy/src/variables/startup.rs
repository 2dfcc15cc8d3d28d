//! The parameters of a startup packet → the settings that a session begins with.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::variables::Settings;
use crate::variables::kinds;

/// Reads the parameters of a startup packet as PostgreSQL does (ProcessStartupPacket, process_startup_options): those
/// in `options` first, so that parameters of their own win. `user`, `database`, `replication` and `_pq_.…` are no
/// settings; nor is what a session does not keep.
///
/// # Errors
/// 42601 for `options` that PostgreSQL would refuse, 0A000 for its one-letter switches beyond `-c`, `-S` and `-e`;
/// fatal. Values are not looked at: a server tells when they are put on it.
pub fn settings<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Settings> {
    let mut settings = Settings::new();
    let mut own = Settings::new();
    for (name, value) in parameters {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "options" => read_options(value, &mut settings)?,
            "user" | "database" | "replication" => {}
            name if name.starts_with("_pq_.") => {}
            _ => put(name, value, &mut own),
        }
    }
    settings.extend(own);
    Ok(settings)
}

fn put(name: String, value: &str, settings: &mut Settings) {
    if kinds::kind(&name).is_kept() {
        settings.insert(name, value.to_owned());
    }
}

/// The switches of process_postgres_switches that a client may give.
fn read_options(options: &str, settings: &mut Settings) -> Result<()> {
    let mut words = split_options(options).into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if let Some(setting) = word.strip_prefix("--") {
            assign(setting, &format!("--{setting} requires a value"), settings)?;
        } else if let Some(attached) = word.strip_prefix("-c") {
            let setting = argument(attached, &mut words, &word)?;
            assign(&setting, &format!("-c {setting} requires a value"), settings)?;
        } else if let Some(attached) = word.strip_prefix("-S") {
            put("work_mem".to_owned(), &argument(attached, &mut words, &word)?, settings);
        } else if word == "-e" {
            put("datestyle".to_owned(), "euro", settings);
        } else if word.starts_with('-') && word.len() > 1 {
            let message = format!("startup option \"{word}\" is not supported");
            return Err(Error::fatal(codes::NOT_SUPPORTED, message).hint("Use -c name=value in options."));
        } else {
            return Err(invalid(&word));
        }
    }
    Ok(())
}

fn invalid(word: &str) -> Error {
    Error::fatal(codes::SYNTAX_ERROR, format!("invalid command-line argument for server process: {word}"))
}

/// What follows a switch, in the same word or the next.
fn argument(attached: &str, words: &mut impl Iterator<Item = String>, word: &str) -> Result<String> {
    if attached.is_empty() { words.next().ok_or_else(|| invalid(word)) } else { Ok(attached.to_owned()) }
}

/// `name=value`; dashes in a name are underscores (ParseLongOption).
fn assign(setting: &str, complaint: &str, settings: &mut Settings) -> Result<()> {
    let Some((name, value)) = setting.split_once('=') else {
        return Err(Error::fatal(codes::SYNTAX_ERROR, complaint.to_owned()));
    };
    put(name.replace('-', "_").to_ascii_lowercase(), value, settings);
    Ok(())
}

/// Words separated by white space; a backslash takes the next character as it is (pg_split_opts).
fn split_options(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        if character.is_ascii_whitespace() || character == '\u{b}' {
            words.extend(word.take());
        } else {
            let word = word.get_or_insert_default();
            match character {
                '\\' => word.extend(characters.next()),
                other => word.push(other),
            }
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::settings;
    use proptest::proptest;

    fn read(parameters: &[(&str, &str)]) -> Vec<(String, String)> {
        settings(parameters.iter().copied()).unwrap().into_iter().collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_become_settings() {
        let parameters = [
            ("user", "app"),
            ("database", "shop"),
            ("DateStyle", "ISO, MDY"),
            ("client_encoding", "'utf-8'"),
            ("_pq_.x", "1"),
            ("is_superuser", "on"),
            ("options", "-c geqo=off -cwork_mem=4MB --search-path=a\\ b\\\\,c -c DateStyle=German"),
        ];
        assert_eq!(
            read(&parameters),
            pairs(&[
                ("client_encoding", "'utf-8'"),
                ("datestyle", "ISO, MDY"),
                ("geqo", "off"),
                ("search_path", "a b\\,c"),
                ("work_mem", "4MB")
            ])
        );
        assert_eq!(
            read(&[("options", " -S 64 -e -c a.b= ")]),
            pairs(&[("a.b", ""), ("datestyle", "euro"), ("work_mem", "64")])
        );
        assert_eq!(read(&[("options", "")]), []);
    }

    #[test]
    fn wrong_options_are_fatal() {
        for (options, code) in
            [("-c", "42601"), ("-c geqo", "42601"), ("--geqo", "42601"), ("x", "42601"), ("-B 5", "0A000")]
        {
            let error = settings([("options", options)]).unwrap_err();
            assert!(error.is_fatal());
            assert_eq!(error.code.as_str(), code, "{options}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(options in ".*") {
            let _ = settings([("options", options.as_str())]);
        }
    }
}
