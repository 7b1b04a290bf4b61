//! The differences between designs that the documentation names, as this test knows them. Whatever is not among them is
//! the same on all.

use std::sync::OnceLock;

use threadgauge_reactor::{CloseReason, Totals};

/// A difference, by the name that it has in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Some serve one client after the other, or as many as they have workers.
    AtOnce,
    /// Some keep connections apart, which cannot hear each other.
    Apart,
    /// Not played: where one client is served after the other, none comes before all of another is over.
    LateDiscard,
    /// Answers of steps that block come in any order where there are workers for them.
    OrderOfSteps,
    /// What comes after the stop is not heard where a thread or process blocks for each client.
    LateInput,
    /// Not played: what is sent to a client in a trace fits into its socket, so that it does not wait.
    ReadOrWrite,
    /// Not played: the time to drain is the server's.
    DrainTime,
    /// Not played: nothing crashes.
    Isolation,
    /// Each receive is a message of `echo`.
    MessagesOfEcho,
    /// Counters that say what a design costs.
    Calls,
}

impl Difference {
    const ALL: [(Self, &str); 10] = [
        (Self::AtOnce, "at-once"),
        (Self::Apart, "apart"),
        (Self::LateDiscard, "late-discard"),
        (Self::OrderOfSteps, "order-of-steps"),
        (Self::LateInput, "late-input"),
        (Self::ReadOrWrite, "read-or-write"),
        (Self::DrainTime, "drain-time"),
        (Self::Isolation, "isolation"),
        (Self::MessagesOfEcho, "messages-of-echo"),
        (Self::Calls, "calls"),
    ];
}

/// Counters that are compared, beside the reasons of ends.
pub const COMPARED: [&str; 6] = [
    "accepted",
    "bytes_in",
    "bytes_out",
    "messages",
    "deliveries",
    "undeliverable",
];

/// What the documentation says.
fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/designs.md");
        std::fs::read_to_string(path).expect("the document of the designs")
    })
}

/// The rows of its table: their names and what they say.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = document().lines();
    rows.filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
}

fn says(difference: Difference) -> Option<&'static str> {
    let (_, name) = Difference::ALL
        .into_iter()
        .find(|&(known, _)| known == difference)?;
    rows().find_map(|(documented, says)| (documented == name).then_some(says))
}

/// Whether the documentation names it.
pub fn is_documented(difference: Difference) -> bool {
    says(difference).is_some()
}

/// # Panics
///
/// If the documentation names others than are known here, or leaves out a counter that is not compared, or an abrupt
/// end.
pub fn are_those_of_the_document() {
    let names: Vec<&str> = rows().map(|(name, _)| name).collect();
    let known = Difference::ALL.map(|(_, name)| name);
    assert_eq!(names, known, "the table in docs/designs.md");
    let calls = says(Difference::Calls).expect("just seen");
    for (counter, _) in Totals::default().each() {
        let differs = calls.contains(&format!("`{counter}`"));
        assert_eq!(
            differs,
            !COMPARED.contains(&counter),
            "{counter}, in docs/designs.md"
        );
    }
    for reason in CloseReason::ALL.into_iter().filter(|reason| reason.is_abrupt()) {
        let name = format!("`{}`", reason.name());
        assert!(document().contains(&name), "{name}, in docs/designs.md");
    }
}
