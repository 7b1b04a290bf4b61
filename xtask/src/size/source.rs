//! One source file without its tests: its lines of code.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Meta, Token};

/// The feature that a crate's users switch on for their own tests, and for nothing else.
const TEST_SUPPORT: &str = "feature = \"testing\"";

/// Parses `text` and drops everything that only a test build contains.
pub fn without_tests(text: &str) -> Result<syn::File> {
    let mut file =
        syn::parse_file(text).map_err(|error| anyhow!("line {}: {error}", error.span().start().line))?;
    if file.attrs.iter().any(is_for_tests) {
        file.items.clear();
    }
    DropTests.visit_file_mut(&mut file);
    Ok(file)
}

/// The lines of `text` that hold at least a part of a token of `file`, documentation left out.
pub fn code_lines(text: &str, file: &syn::File) -> usize {
    let mut lines = BTreeSet::new();
    collect_lines(file.to_token_stream(), &mut lines);
    let is_blank: Vec<bool> = text.lines().map(|line| line.trim().is_empty()).collect();
    // A string may hold blank lines.
    lines.retain(|line| !is_blank[line - 1]);
    lines.len()
}

fn collect_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in without_documentation(tokens) {
        match token {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines.insert(group.span_close().end().line);
                collect_lines(group.stream(), lines);
            }
            token => lines.extend(token.span().start().line..=token.span().end().line),
        }
    }
}

/// Leaves out documentation, which the parser hands over as `#[doc = "…"]` or `#![doc = "…"]`.
fn without_documentation(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        if let TokenTree::Group(group) = &token
            && group.delimiter() == Delimiter::Bracket
            && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
        {
            for mark in ['!', '#'] {
                kept.pop_if(|before| is_punct(Some(before), mark));
            }
        } else {
            kept.push(token);
        }
    }
    kept
}

/// A path as it is written: `crate::a::b`, or a single name.
pub type Path = Vec<String>;

/// Every path in `tokens`, those in macros included. A name after a dot or before a single colon is none: it is a
/// field, a method or a parameter.
pub fn paths(tokens: TokenStream) -> Vec<Path> {
    let mut found = Vec::new();
    collect_paths(tokens, &mut found);
    found
}

fn collect_paths(tokens: TokenStream, found: &mut Vec<Path>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, mark| is_punct(tokens.get(at), mark);
    let colons_at = |at| is(at, ':') && is(at + 1, ':');
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => collect_paths(group.stream(), found),
            TokenTree::Ident(first) => {
                let goes_on = at >= 2 && colons_at(at - 2);
                let follows_a_mark = at >= 1 && (is(at - 1, '.') || is(at - 1, '\''));
                let mut path = vec![first.to_string()];
                while colons_at(at + 1)
                    && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                {
                    path.push(next.to_string());
                    at += 3;
                }
                let is_label = path.len() == 1 && is(at + 1, ':') && !colons_at(at + 1);
                if !goes_on && !follows_a_mark && !is_label {
                    found.push(path);
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

struct DropTests;

impl VisitMut for DropTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(is_in_product);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(is_in_product);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(is_in_product);
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_item_trait_mut(&mut self, block: &mut syn::ItemTrait) {
        block.items.retain(is_in_product);
        visit_mut::visit_item_trait_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(is_in_product);
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        fields.named.retain(|field| is_in_product(field));
        visit_mut::visit_fields_named_mut(self, fields);
    }

    fn visit_item_enum_mut(&mut self, item: &mut syn::ItemEnum) {
        item.variants.retain(|variant| is_in_product(variant));
        visit_mut::visit_item_enum_mut(self, item);
    }

    fn visit_expr_struct_mut(&mut self, value: &mut syn::ExprStruct) {
        value.fields.retain(|field| is_in_product(field));
        visit_mut::visit_expr_struct_mut(self, value);
    }

    fn visit_expr_match_mut(&mut self, choice: &mut syn::ExprMatch) {
        choice.arms.retain(is_in_product);
        visit_mut::visit_expr_match_mut(self, choice);
    }
}

fn is_in_product(node: &impl ToTokens) -> bool {
    let leading = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<TokenStream>()?;
        Ok(attributes)
    };
    let attributes = leading.parse2(node.to_token_stream()).unwrap_or_default();
    !attributes.iter().any(is_for_tests)
}

/// Whether what follows this attribute is in no build but a test's, of this crate or of one that uses it.
fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<Meta>()
            .is_ok_and(|condition| !can_hold_outside_tests(&condition))
}

fn can_hold_outside_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return !condition.path().is_ident("test") && condition.to_token_stream().to_string() != TEST_SUPPORT;
    };
    let inner = list
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .unwrap_or_default();
    if list.path.is_ident("all") {
        inner.iter().all(can_hold_outside_tests)
    } else if list.path.is_ident("any") {
        inner.iter().any(can_hold_outside_tests)
    } else {
        // `not(test)` holds outside of tests; of other conditions nothing is known.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        code_lines(text, &without_tests(text).unwrap())
    }

    #[test]
    fn a_line_with_a_token_counts_and_no_other() {
        let text = r##"//! A file.
#![forbid(unsafe_code)]

/// Documentation,
/// of two lines.
#[doc = "More of it."]
#[must_use]
pub fn text() -> &'static str {
    // A comment.
    /* another */ "begins

    ends" /* one
    more */
}

macro_rules! twice {
    ($x:expr) => {
        /// Documentation too.
        $x + $x // as it says
    };
}
"##;
        // 1 attribute of the file, 5 of the function with its text, 5 of the macro.
        assert_eq!(lines(text), 1 + 5 + 5);
    }

    #[test]
    fn what_only_a_test_build_has_does_not_count() {
        assert_eq!(lines("#[cfg(test)]\nuse a::b;\nfn f() {}"), 1);
        assert_eq!(
            lines("#[cfg(all(loom, test))]\nmod tests {\n    fn f() {}\n}\n"),
            0
        );
        assert_eq!(lines("#![cfg(test)]\nfn f() {}\n"), 1);
        assert_eq!(
            lines("#[cfg(any(test, feature = \"testing\"))]\nmod testing {}\n"),
            0
        );
        let text = "struct A {\n    x: u8,\n    #[cfg(test)]\n    y: u8,\n}\n";
        assert_eq!(lines(text), 3);
        let text = "impl A {\n    #[cfg(test)]\n    fn f() {}\n    fn g() {\n        #[cfg(test)]\n        f();\n    }\n}\n";
        assert_eq!(lines(text), 4);
    }

    #[test]
    fn what_a_product_may_have_counts() {
        for condition in [
            "not(test)",
            "any(test, loom)",
            "any(test, feature = \"process\")",
            "loom",
            "unix",
            "feature = \"test\"",
        ] {
            assert_eq!(
                lines(&format!("#[cfg({condition})]\nfn f() {{}}\n")),
                2,
                "{condition}"
            );
        }
    }

    #[test]
    fn paths_are_found_in_code_types_patterns_and_macros() {
        let text = "fn f(a: crate::a::A) -> Vec<b::B> { let c::C { d, .. } = a.e::<g::G>(); print!(\"{}\", h::i()) }";
        let found = paths(text.parse().unwrap());
        let longer: Vec<String> = found
            .iter()
            .filter(|path| path.len() > 1)
            .map(|path| path.join("::"))
            .collect();
        assert_eq!(longer, ["crate::a::A", "b::B", "c::C", "g::G", "h::i"]);
        let single = |name: &str| found.iter().any(|path| path[..] == [name]);
        assert!(single("Vec") && single("print") && single("d"), "{found:?}");
        assert!(!single("e") && !single("C") && !single("i"), "{found:?}");
    }

    #[test]
    fn fields_and_lifetimes_are_no_paths() {
        let found = paths("S::<'a> { field: value, .. }".parse().unwrap());
        assert_eq!(found, [["S"], ["value"]]);
    }
}
