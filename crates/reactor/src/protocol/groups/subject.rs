//! Subjects: tokens with dots between them; when subscribing, `*` stands for any one token and `>` for all that follow.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The most tokens of a subject that is subscribed to: so deep is the index at most.
pub(super) const MOST_TOKENS: usize = 128;
/// When subscribing: any one token,
pub(super) const ANY: &[u8] = b"*";
/// and all that follow.
pub(super) const REST: &[u8] = b">";

/// What a subject is to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Itself alone.
    Literal,
    /// It has wildcards, and matches others.
    Wildcard,
}

/// Its tokens, from left to right. An empty one makes a subject invalid.
pub(super) fn tokens(subject: &[u8]) -> impl Iterator<Item = &[u8]> {
    subject.split(|&byte| byte == b'.')
}

/// What a subject is to a subscriber; `None` where it is none: a token is empty, or something follows `>`.
pub(super) fn kind(subject: &[u8]) -> Option<Kind> {
    let (mut kind, mut over) = (Kind::Literal, false);
    for token in tokens(subject) {
        if token.is_empty() || over {
            return None;
        }
        over = token == REST;
        if over || token == ANY {
            kind = Kind::Wildcard;
        }
    }
    Some(kind)
}

/// Whether messages may be published to it where that is looked at.
pub(super) fn is_literal(subject: &[u8]) -> bool {
    kind(subject) == Some(Kind::Literal)
}

/// A number for it, which hardly another has.
pub(super) fn hash(subject: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_whole_tokens() {
        for literal in ["a", "a.b", "a*", "a.b>", "*a.>b", "**", ">>", "$x.\u{e4}"] {
            assert_eq!(kind(literal.as_bytes()), Some(Kind::Literal), "{literal}");
            assert!(is_literal(literal.as_bytes()), "{literal}");
        }
        for wildcard in ["*", ">", "a.*", "*.b", "a.>", "*.*.>"] {
            assert_eq!(kind(wildcard.as_bytes()), Some(Kind::Wildcard), "{wildcard}");
            assert!(!is_literal(wildcard.as_bytes()), "{wildcard}");
        }
        for invalid in ["", ".", "a.", ".a", "a..b", ">.a", "a.>.b", ">.>", "a.>."] {
            assert_eq!(kind(invalid.as_bytes()), None, "{invalid}");
            assert!(!is_literal(invalid.as_bytes()), "{invalid}");
        }
    }
}
