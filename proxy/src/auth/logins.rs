//! The configured users as the handshake needs them: how each proves who it is, and its login on the servers.

use crate::auth::scram::Verifier;
use crate::config::Login;
use crate::config::User;
use crate::config::UserAuth;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;

/// All users of one configuration. A reload makes another with [`Logins::with_users`].
#[derive(Debug)]
pub struct Logins {
    users: HashMap<String, Known>,
    /// From which the verifiers of users who do not exist are made: theirs must stay the same as long as the others'.
    seed: [u8; 32],
}

#[derive(Debug)]
struct Known {
    user: User,
    /// Made at the first login: it takes a millisecond.
    verifier: OnceLock<Arc<Verifier>>,
}

/// What a client must do to log in.
#[derive(Clone, Debug)]
pub enum Method {
    Trust,
    Scram(Arc<Verifier>),
}

impl Logins {
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(users: &[User]) -> Result<Logins> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| Error::new(codes::INTERNAL, "could not generate random bytes"))?;
        Ok(Logins { users: known(users), seed })
    }

    /// The same with other users. Verifiers of passwords that did not change are kept, and so are their salts.
    #[must_use]
    pub fn with_users(&self, users: &[User]) -> Logins {
        let mut users = known(users);
        for (name, known) in &mut users {
            if let Some(old) = self.users.get(name).filter(|old| old.user.auth == known.user.auth) {
                known.verifier = old.verifier.clone();
            }
        }
        Logins { users, seed: self.seed }
    }

    /// Users who do not exist are asked for a password like any other, and no password is right.
    pub fn method(&self, user: &str) -> Method {
        let Some(known) = self.users.get(user) else { return self.doomed(user) };
        match &known.user.auth {
            UserAuth::Trust => Method::Trust,
            UserAuth::Password(secret) => self.kept(known, || Verifier::of_password(&secret.0)),
            UserAuth::Verifier(text) => self.kept(known, || Verifier::parse(text)),
        }
    }

    /// The login on a server for a client who has proved to be `user`. By default the client's own name and password;
    /// where no password is known for it, the login in the shard's URL (`url`), and without one the bare name.
    pub fn server_login(&self, user: &str, url: Option<&Login>) -> Login {
        let Some(known) = self.users.get(user) else { return Login { user: user.to_owned(), password: None } };
        let own = match (&known.user.server_password, &known.user.auth) {
            (Some(secret), _) => Some(secret.clone()),
            // The client's password is that of its own name, not of another on the server.
            (None, UserAuth::Password(secret)) if known.user.server_user.is_none() => Some(secret.clone()),
            _ => None,
        };
        let name = known.user.server_user.clone().unwrap_or_else(|| user.to_owned());
        match (own, url) {
            (None, Some(url)) if known.user.server_user.as_ref().is_none_or(|name| *name == url.user) => url.clone(),
            (password, _) => Login { user: name, password },
        }
    }

    fn kept(&self, known: &Known, make: impl FnOnce() -> Option<Verifier>) -> Method {
        // A verifier that cannot be read lets nobody in; the configuration refuses it before.
        let make = || Arc::new(make().unwrap_or_else(|| Verifier::doomed(&known.user.name, &self.seed)));
        Method::Scram(known.verifier.get_or_init(make).clone())
    }

    fn doomed(&self, user: &str) -> Method {
        Method::Scram(Arc::new(Verifier::doomed(user, &self.seed)))
    }
}

fn known(users: &[User]) -> HashMap<String, Known> {
    let known = |user: &User| (user.name.clone(), Known { user: user.clone(), verifier: OnceLock::new() });
    users.iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::Logins;
    use super::Method;
    use crate::config::Login;
    use crate::config::Secret;
    use crate::config::User;
    use crate::config::UserAuth;
    use std::sync::Arc;

    fn user(name: &str, auth: UserAuth, server_user: Option<&str>, server_password: Option<&str>) -> User {
        User {
            name: name.to_owned(),
            auth,
            server_user: server_user.map(str::to_owned),
            server_password: server_password.map(|text| Secret(text.to_owned())),
        }
    }

    fn password(text: &str) -> UserAuth {
        UserAuth::Password(Secret(text.to_owned()))
    }

    fn login(user: &str, password: &str) -> Login {
        Login { user: user.to_owned(), password: Some(Secret(password.to_owned())) }
    }

    #[test]
    fn verifiers_stay_the_same() {
        let users = [user("a", password("x"), None, None), user("t", UserAuth::Trust, None, None)];
        let logins = Logins::new(&users).unwrap();
        let verifier = |logins: &Logins, name: &str| match logins.method(name) {
            Method::Scram(verifier) => verifier,
            Method::Trust => panic!("{name} is trusted"),
        };
        assert!(Arc::ptr_eq(&verifier(&logins, "a"), &verifier(&logins, "a")));
        let reloaded = logins.with_users(&users);
        assert_eq!(verifier(&logins, "a"), verifier(&reloaded, "a"));
        assert_eq!(verifier(&logins, "nobody"), verifier(&reloaded, "nobody"));
        let changed = logins.with_users(&[user("a", password("y"), None, None)]);
        assert_ne!(verifier(&logins, "a"), verifier(&changed, "a"));
        assert!(matches!(logins.method("t"), Method::Trust));
    }

    #[test]
    fn logins_on_servers() {
        let logins = Logins::new(&[
            user("own", password("x"), None, None),
            user("other", password("x"), Some("role"), Some("y")),
            user("kept", UserAuth::Verifier(String::new()), None, None),
            user("trusted", UserAuth::Trust, None, Some("z")),
            user("named", password("x"), Some("role"), None),
        ]);
        let logins = logins.unwrap();
        let url = login("url", "u");
        assert_eq!(logins.server_login("own", Some(&url)), login("own", "x"));
        assert_eq!(logins.server_login("other", Some(&url)), login("role", "y"));
        assert_eq!(logins.server_login("kept", Some(&url)), url);
        assert_eq!(logins.server_login("kept", None), Login { user: "kept".to_owned(), password: None });
        assert_eq!(logins.server_login("trusted", Some(&url)), login("trusted", "z"));
        assert_eq!(logins.server_login("named", Some(&url)), Login { user: "role".to_owned(), password: None });
        assert_eq!(logins.server_login("named", Some(&login("role", "u"))), login("role", "u"));
    }
}
