//! Build once, reload; arguments.
