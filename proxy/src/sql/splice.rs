//! A new text from an old one: pieces replaced by byte ranges, and places of the new text found again in the old one.

use crate::error::Error;
use crate::error::Result;
use std::borrow::Cow;
use std::ops::Range;

/// A text with changes that are still to be made. Byte ranges are those of the text as it was given.
#[derive(Clone, Debug)]
pub struct Splice<'a> {
    text: &'a str,
    edits: Vec<Edit>,
}

#[derive(Clone, Debug)]
struct Edit {
    range: Range<usize>,
    new: Cow<'static, str>,
}

impl<'a> Splice<'a> {
    pub fn new(text: &'a str) -> Splice<'a> {
        Splice { text, edits: Vec::new() }
    }

    /// The text as it was given.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The changes, in the order of the calls.
    pub(crate) fn edits(&self) -> impl Iterator<Item = (&Range<usize>, &Cow<'static, str>)> {
        self.edits.iter().map(|edit| (&edit.range, &edit.new))
    }

    /// Nothing was changed: the client's text can be forwarded as it is.
    pub fn is_unchanged(&self) -> bool {
        self.edits.is_empty()
    }

    /// Puts `new` in the place of a byte range.
    pub fn replace(&mut self, range: Range<usize>, new: impl Into<Cow<'static, str>>) {
        self.edits.push(Edit { range, new: new.into() });
    }

    /// Puts `new` before the byte at `at`. What is inserted at one place stands in the order of the calls, and before
    /// what replaces a range that starts there.
    pub fn insert(&mut self, at: usize, new: impl Into<Cow<'static, str>>) {
        self.replace(at..at, new);
    }

    /// Takes a byte range out.
    pub fn delete(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    /// The new text.
    ///
    /// # Errors
    /// XX000 if two changes overlap, or a range does not lie in the text at character borders: a mistake of the caller.
    pub fn finish(&self) -> Result<String> {
        let edits = self.sorted();
        let added: usize = edits.iter().map(|edit| edit.new.len()).sum();
        let mut out = String::with_capacity(self.text.len() + added);
        let mut at = 0;
        for edit in edits {
            let kept = self.text.get(at..edit.range.start);
            let replaced = self.text.get(edit.range.clone());
            let (Some(kept), Some(_)) = (kept, replaced) else { return Err(wrong_edit(&edit.range)) };
            out.push_str(kept);
            out.push_str(&edit.new);
            at = edit.range.end;
        }
        out.push_str(self.text.get(at..).ok_or_else(|| wrong_edit(&(at..at)))?);
        Ok(out)
    }

    /// Where a place of the new text is in the old one; both count characters from 1, as PostgreSQL's error positions
    /// do. A place in what replaced a range is the start of that range; a place in what was inserted has none.
    pub fn map_back(&self, position: u32) -> Option<u32> {
        let mut left = usize::try_from(position).ok()?.checked_sub(1)?;
        let mut at = 0;
        for edit in self.sorted() {
            let kept = self.text.get(at..edit.range.start)?;
            match nth_character(kept, left) {
                Ok(offset) => return character_position(self.text, at + offset),
                Err(characters) => left -= characters,
            }
            match nth_character(&edit.new, left) {
                Ok(_) if edit.range.is_empty() => return None,
                Ok(_) => return character_position(self.text, edit.range.start),
                Err(characters) => left -= characters,
            }
            at = edit.range.end;
        }
        let rest = self.text.get(at..)?;
        match nth_character(rest, left) {
            Ok(offset) => character_position(self.text, at + offset),
            // PostgreSQL points behind the last character for an error at the end of the input.
            Err(characters) if characters == left => character_position(self.text, self.text.len()),
            Err(_) => None,
        }
    }

    fn sorted(&self) -> Vec<&Edit> {
        let mut edits: Vec<&Edit> = self.edits.iter().collect();
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        edits
    }
}

/// The byte offset of the n-th character (from 0), or how many characters there are.
fn nth_character(text: &str, n: usize) -> std::result::Result<usize, usize> {
    if text.is_ascii() {
        return if n < text.len() { Ok(n) } else { Err(text.len()) };
    }
    text.char_indices().nth(n).map(|(offset, _)| offset).ok_or_else(|| text.chars().count())
}

/// The position of a byte offset, in characters from 1; `None` outside the text.
pub fn character_position(text: &str, offset: usize) -> Option<u32> {
    u32::try_from(text.get(..offset)?.chars().count() + 1).ok()
}

fn wrong_edit(range: &Range<usize>) -> Error {
    Error::internal(format!("cannot change bytes {} to {} of the statement", range.start, range.end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Splice;
    use proptest::prelude::any;
    use proptest::proptest;

    #[test]
    fn changes_apply_in_the_order_of_the_text() {
        let mut splice = Splice::new("SELECT a FROM t LIMIT 5");
        assert!(splice.is_unchanged());
        splice.replace(22..23, "15");
        splice.insert(8, ", b");
        splice.insert(8, ", c");
        splice.delete(13..15);
        assert_eq!(splice.finish().unwrap(), "SELECT a, b, c FROM LIMIT 15");
        assert!(!splice.is_unchanged());
    }

    #[test]
    fn an_insertion_may_touch_a_replacement() {
        let mut splice = Splice::new("abc");
        splice.replace(1..2, "X");
        splice.insert(1, "<");
        splice.insert(2, ">");
        assert_eq!(splice.finish().unwrap(), "a<X>c");
    }

    #[test]
    fn wrong_changes_are_told() {
        for ranges in [[0..2, 1..3], [0..9, 0..0], [2..3, 0..0]] {
            let mut splice = Splice::new("aéb");
            for range in ranges {
                splice.replace(range, "x");
            }
            assert!(splice.finish().is_err());
        }
        let mut inside = Splice::new("abcdef");
        inside.replace(1..5, "x");
        inside.insert(3, "y");
        assert!(inside.finish().is_err());
    }

    #[test]
    fn positions_lead_back() {
        //                            0123456789
        let mut splice = Splice::new("SELECT é, b");
        splice.insert(9, ", xx");
        splice.replace(11..12, "long");
        assert_eq!(splice.finish().unwrap(), "SELECT é, xx, long");
        assert_eq!(splice.map_back(0), None);
        assert_eq!(splice.map_back(1), Some(1));
        assert_eq!(splice.map_back(8), Some(8));
        assert_eq!(splice.map_back(9), None);
        assert_eq!(splice.map_back(12), None);
        assert_eq!(splice.map_back(13), Some(9));
        assert_eq!(splice.map_back(15), Some(11));
        assert_eq!(splice.map_back(18), Some(11));
        assert_eq!(splice.map_back(19), Some(12));
        assert_eq!(splice.map_back(20), None);
    }

    proptest! {
        #[test]
        fn never_panics(
            text in ".*",
            edits in proptest::collection::vec((0..40_usize, 0..40_usize, ".{0,4}"), 0..5),
            position in any::<u32>(),
        ) {
            let mut splice = Splice::new(&text);
            for (start, end, new) in edits {
                splice.replace(start..end, new);
            }
            let _ = splice.finish();
            let _ = splice.map_back(position % 64);
            let _ = splice.map_back(position);
        }

        #[test]
        fn an_unchanged_text_maps_to_itself(text in ".{0,20}", position in 1..20_u32) {
            let splice = Splice::new(&text);
            let characters = u32::try_from(text.chars().count()).unwrap();
            let expected = (position <= characters + 1).then_some(position);
            assert_eq!(splice.map_back(position), expected);
        }
    }
}
