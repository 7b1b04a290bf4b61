//! What may stand in a page: text, and ids to link to.

use maud::{Markup, html as markup};

use threadgauge_results::outside::steers;
use threadgauge_results::published::cited;

/// Text for a reader: sources by their names, and nothing that steers, which HTML does not allow even escaped.
pub(super) fn clean(text: &str) -> String {
    cited(text)
        .chars()
        .map(|c| {
            if steers(c) && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// Text in which what stands between backticks is a command.
pub(super) fn coded(text: &str) -> Markup {
    markup! {
        @for (i, part) in text.split('`').enumerate() {
            @if i % 2 == 1 { code { (clean(part)) } } @else { (clean(part)) }
        }
    }
}

/// The anchor of what a run says of a claim.
pub(super) fn finding_id(claim: &str) -> String {
    format!("claim-{}", slug(claim))
}

/// The anchor of an experiment.
pub(super) fn section_id(experiment: &str) -> String {
    format!("e-{}", slug(experiment))
}

/// A name that can stand in an id: what cannot becomes its code point, so that two names stay two.
pub(super) fn slug(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '-' {
            out.push(c);
        } else {
            out.push_str(&format!("_{:x}", u32::from(c)));
        }
    }
    out
}
