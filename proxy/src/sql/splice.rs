//! A new text from an old one: pieces replaced by byte ranges.
