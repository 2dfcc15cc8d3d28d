//! The exchanges of a login, client → us and us → PostgreSQL, for a secret that is given.
