//! SPDX licence expressions, as crates write them: `MIT OR Apache-2.0`, `(MIT OR Zlib) AND Unicode-3.0`,
//! `Apache-2.0 WITH LLVM-exception`, and the older `MIT/Apache-2.0`.
//!
//! Owns reading an expression and judging it. Which licences are welcome is the caller's business.

use std::fmt;

/// An expression that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// A licence, with its exception where it has one: `Apache-2.0 WITH LLVM-exception`.
    Licence(String),
    /// All of these bind at once.
    And(Box<Self>, Box<Self>),
    /// The user chooses.
    Or(Box<Self>, Box<Self>),
}

/// Why an expression could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Expression {
    /// Reads `text`. `AND` binds closer than `OR`, `WITH` closer than both.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let mut words = Words {
            words: spaced.split_whitespace().collect(),
            at: 0,
        };
        let expression = words.or()?;
        match words.next() {
            None => Ok(expression),
            Some(word) => Err(Unreadable(format!("{text:?}: did not expect {word:?}"))),
        }
    }

    /// Whether one may use the thing when only the licences that `welcome` names are accepted.
    pub fn allows(&self, welcome: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Licence(name) => welcome(name),
            Self::And(a, b) => a.allows(welcome) && b.allows(welcome),
            Self::Or(a, b) => a.allows(welcome) || b.allows(welcome),
        }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn take(&mut self, word: &str) -> bool {
        let here = self.peek() == Some(word);
        self.at += usize::from(here);
        here
    }

    fn or(&mut self) -> Result<Expression, Unreadable> {
        let mut left = self.and()?;
        while self.take("OR") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, Unreadable> {
        let mut left = self.single()?;
        while self.take("AND") {
            left = Expression::And(Box::new(left), Box::new(self.single()?));
        }
        Ok(left)
    }

    fn single(&mut self) -> Result<Expression, Unreadable> {
        if self.take("(") {
            let inner = self.or()?;
            return if self.take(")") {
                Ok(inner)
            } else {
                Err(Unreadable("a parenthesis is left open".to_owned()))
            };
        }
        let name = self.name()?;
        if self.take("WITH") {
            return Ok(Expression::Licence(format!("{name} WITH {}", self.name()?)));
        }
        Ok(Expression::Licence(name.to_owned()))
    }

    fn name(&mut self) -> Result<&'a str, Unreadable> {
        match self.next() {
            Some(word) if !matches!(word, "AND" | "OR" | "WITH" | "(" | ")") => Ok(word),
            Some(word) => Err(Unreadable(format!("a licence was expected before {word:?}"))),
            None => Err(Unreadable("a licence was expected at the end".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(expression: &str, welcome: &[&str]) -> bool {
        Expression::parse(expression)
            .unwrap()
            .allows(&|name| welcome.contains(&name))
    }

    #[test]
    fn one_of_an_or_is_enough() {
        assert!(allowed("MIT OR Apache-2.0", &["MIT"]));
        assert!(allowed("GPL-3.0-only OR MIT", &["MIT"]));
        assert!(!allowed("GPL-3.0-only OR AGPL-3.0-only", &["MIT"]));
    }

    #[test]
    fn an_and_needs_all() {
        assert!(allowed("MIT AND Unicode-3.0", &["MIT", "Unicode-3.0"]));
        assert!(!allowed("MIT AND Unicode-3.0", &["MIT"]));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(allowed("MIT OR Apache-2.0 AND GPL-3.0-only", &["MIT"]));
        assert!(!allowed("(MIT OR Apache-2.0) AND GPL-3.0-only", &["MIT"]));
        assert!(allowed(
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            &["Apache-2.0", "Unicode-3.0"]
        ));
    }

    #[test]
    fn a_licence_and_its_exception_are_one_name() {
        let welcome = &["Apache-2.0 WITH LLVM-exception"];
        assert!(allowed("Apache-2.0 WITH LLVM-exception", welcome));
        assert!(!allowed("Apache-2.0", welcome));
        assert!(!allowed("Apache-2.0 WITH LLVM-exception", &["Apache-2.0"]));
        assert!(allowed("GPL-3.0-only OR Apache-2.0 WITH LLVM-exception", welcome));
    }

    #[test]
    fn a_slash_is_the_old_or() {
        assert!(allowed("MIT/Apache-2.0", &["Apache-2.0"]));
        assert!(allowed("MIT / Apache-2.0", &["MIT"]));
    }

    #[test]
    fn parentheses_nest() {
        assert!(allowed("((MIT) AND ((Zlib OR GPL-3.0-only)))", &["MIT", "Zlib"]));
    }

    #[test]
    fn nonsense_is_refused_and_not_guessed() {
        for nonsense in [
            "",
            "MIT OR",
            "AND MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "OR",
            "()",
        ] {
            assert!(Expression::parse(nonsense).is_err(), "{nonsense:?} was read");
        }
    }
}
