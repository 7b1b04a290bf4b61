//! What is printed after the first screen: one table of the answers. `?print=all` behind the page's address prints
//! everything in its place.

use maud::{Markup, html as markup};
use threadgauge_results::Results;

use super::text::clean;
use crate::lead::Lead;
use crate::short_answer;

/// The table of answers, on paper alone: on the screen each experiment says its own.
pub(super) fn answers(results: &Results) -> Markup {
    // What a run without sayings begins with is printed as it stands.
    let leads = usize::from(Lead::of(results) == Lead::Answers);
    let answered = results.experiments.iter().skip(leads);
    let answered: Vec<_> = answered.filter(|e| !e.answer.is_empty()).collect();
    markup! {
        @if !answered.is_empty() {
            section #answers.paper-only aria-labelledby="answers-h" {
                h2 #answers-h { "What each experiment answers" }
                table.many[answered.len() > 16] {
                    caption.unseen { "Each experiment's question and its answer" }
                    thead { tr { th scope="col" { "experiment" } th scope="col" { "asked" } th scope="col" { "answered" } } }
                    tbody {
                        @for e in &answered {
                            tr { th scope="row" { (clean(&e.id)) } td { (clean(&e.question)) } td { (clean(&short_answer(e))) } }
                        }
                    }
                }
                p.small { "Everything else of the report: open it with " code { "?print=all" } " behind its address, and print." }
            }
        }
    }
}
