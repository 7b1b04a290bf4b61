//! The words of this project and of the field that a newcomer does not know, each with what it means, in one table.
//!
//! A page explains each word it has: at its first use in a section the word is a link to the page's list of words. A
//! link works by keyboard, by touch and without a script, and the list is printed. Markdown has the list alone.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::LazyLock;

use maud::{Markup, html as markup};
use threadgauge_results::published::sources;

/// A word with its meaning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// How it is written, the form of the list first.
    pub forms: &'static [&'static str],
    /// What it means, in a sentence at most.
    pub means: &'static str,
}

const fn word(forms: &'static [&'static str], means: &'static str) -> Word {
    Word { forms, means }
}

/// All of them, in their order.
pub(crate) const WORDS: &[Word] = &[
    word(
        &["99th percentile", "99th percentiles"],
        "what 99 of 100 values are not above",
    ),
    word(
        &["beat", "beats"],
        "a task that is due every few milliseconds, as the display of a program is",
    ),
    word(
        &["burn", "burner"],
        "computing for an exact time, to stand for real work",
    ),
    word(
        &["carrier", "carriers"],
        "who does a computation: the caller, a thread or a process",
    ),
    word(
        &["case", "cases"],
        "one combination of settings that is measured, such as 16 threads on one CPU",
    ),
    word(
        &["clone-vm"],
        "a process that shares its parent's memory, as each thread was before Linux 2.6",
    ),
    word(
        &["context switch", "context switches"],
        "the CPU leaves one thread and goes on with another",
    ),
    word(
        &["control group", "control groups", "cgroup", "cgroups"],
        "a set of processes to which Linux gives limits together",
    ),
    word(&["degree"], "how many are at work at once, at the most"),
    word(
        &["disturbed", "undisturbed"],
        "of a sample: other programs, the hypervisor or a quota took more CPU time meanwhile than a limit set beforehand",
    ),
    word(
        &["epoll"],
        "a call of Linux that says which of many connections have something to read",
    ),
    word(
        &["eventfd"],
        "a counter in the kernel that one thread adds to while another waits for it",
    ),
    word(
        &["floor"],
        "the least that something can cost: a plain program that does this and nothing else",
    ),
    word(&["fork", "forks"], "makes a process as a copy of its parent"),
    word(
        &["futex"],
        "a call of Linux by which a thread sleeps until another wakes it through a word of memory",
    ),
    word(
        &["geometric mean"],
        "the mean of ratios: twice and half as much come to the same",
    ),
    word(
        &["half-sync-half-async"],
        "a server design: an event loop reads, and a pool of threads works",
    ),
    word(
        &["harness"],
        "the part of this program that starts, times and checks what is measured",
    ),
    word(
        &["hypervisor"],
        "the program that runs virtual machines, and may give this one's CPU to another",
    ),
    word(
        &["interval", "intervals"],
        "the range in brackets behind a figure: where the true value lies, with the certainty that the table states",
    ),
    word(
        &["io_uring"],
        "queues shared with Linux through which a thread asks for many reads and writes at once",
    ),
    word(
        &["Kendall's tau", "Kendall tau", "tau"],
        "how alike two orders are: 1 where they are the same, 0 where unrelated, −1 where reversed",
    ),
    word(
        &["leader-followers"],
        "a server design: one thread of a pool waits for all connections, and passes that on before it works",
    ),
    word(
        &["LinuxThreads"],
        "the thread library of Linux before 2.6: each thread was a process that shared memory",
    ),
    word(
        &["Mann–Kendall"],
        "a test of whether values rise or fall over time",
    ),
    word(
        &["matched console"],
        "a reader that takes as long for each line as the console of the source did",
    ),
    word(
        &["matched slice", "matched slices"],
        "as much work between two yields as makes two threads cost 1 %, as they did in the source",
    ),
    word(
        &["NPTL"],
        "the thread library of Linux since 2.6: the kernel knows each thread",
    ),
    word(
        &["null control", "null-control"],
        "the same case measured twice a round: what differs between the two is noise",
    ),
    word(
        &["page cache"],
        "what the kernel keeps of files in memory, so that the device is not asked again",
    ),
    word(
        &["pool"],
        "threads or processes made beforehand, which wait for work",
    ),
    word(
        &["preforked-accept", "preforked-descriptor", "preforked-mutex"],
        "server designs of processes made beforehand, by how they share the accepting of connections",
    ),
    word(
        &["prethreaded-acceptor", "prethreaded-mutex"],
        "server designs of threads made beforehand, by how they share the accepting of connections",
    ),
    word(
        &["proactor"],
        "a server design: the kernel reads and writes, and one thread works on what is complete",
    ),
    word(
        &["profile"],
        "how much is measured: quick, standard, or paper, which is as much as the sources did",
    ),
    word(
        &["quota"],
        "a limit of a control group: so much CPU time in each tenth of a second",
    ),
    word(
        &["reactor", "reactors", "reactor-per-core"],
        "a server design: an event loop, in which one thread serves many connections, each when it is ready",
    ),
    word(
        &["reference case", "reference"],
        "the case that is measured twice a round, to see how well figures repeat",
    ),
    word(
        &["round", "rounds"],
        "one measurement of every case, in an order shuffled anew",
    ),
    word(
        &["round trip", "round trips"],
        "to the other end and back: a question and its answer",
    ),
    word(&["saturated"], "asked for as much as it can answer"),
    word(&["SMT"], "one core shows itself as two CPUs, which share it"),
    word(
        &["split-reactor"],
        "a server design: one event loop reads and another writes",
    ),
    word(
        &["token"],
        "what units pass on to each other: only the one that has it runs",
    ),
    word(
        &["turnaround"],
        "the time from the start of all until a computation's result is there",
    ),
    word(
        &["unit", "units"],
        "a thread or a process: what the system can run at once",
    ),
    word(&["up-front"], "all threads are made before any begins to work"),
    word(
        &["vfork"],
        "makes a process that borrows its parent's memory until it starts another program",
    ),
    word(
        &["white box", "white-box"],
        "counts from inside a server beside times taken from outside",
    ),
    word(&["worker", "workers"], "a fresh process in which one case runs"),
    word(
        &["yield", "yields", "yielding"],
        "gives up the CPU though there is work left",
    ),
];

/// Whether a character belongs to the word before or behind it.
fn joins(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// Each word in a text: where it stands, how long it is there, and its place in the table. Of several that begin in one
/// place it is the longest.
fn found(text: &str) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut before = ' ';
    let mut until = 0;
    let names = names(text);
    text.char_indices().filter_map(move |(at, c)| {
        let begins = !joins(std::mem::replace(&mut before, c)) && at >= until;
        let (length, word) = begins.then(|| longest(&text[at..])).flatten()?;
        if names.iter().any(|name| name.contains(&at)) {
            return None;
        }
        until = at + length;
        Some((at, length, word))
    })
}

/// Where names of sources stand, whose words are their own: the JAWS case is none of ours.
fn names(text: &str) -> Vec<Range<usize>> {
    let places = sources()
        .iter()
        .flat_map(|source| text.match_indices(source.name.as_str()));
    places.map(|(begins, name)| begins..begins + name.len()).collect()
}

/// The forms of all words with their word, by the byte they begin with, in small letters.
static FORMS: LazyLock<HashMap<u8, Vec<(&str, usize)>>> = LazyLock::new(|| {
    let mut forms = HashMap::<u8, Vec<(&str, usize)>>::new();
    for (word, of) in WORDS.iter().enumerate() {
        for form in of.forms {
            let initial = form.as_bytes()[0].to_ascii_lowercase();
            forms.entry(initial).or_default().push((form, word));
        }
    }
    forms
});

/// The longest form with which a text begins, and its word.
fn longest(text: &str) -> Option<(usize, usize)> {
    let initial = text.as_bytes().first()?.to_ascii_lowercase();
    let begins = FORMS.get(&initial)?.iter().filter(|(form, _)| {
        let head = text.as_bytes().get(..form.len());
        let is_it = head.is_some_and(|head| head.eq_ignore_ascii_case(form.as_bytes()));
        is_it && !text[form.len()..].chars().next().is_some_and(joins)
    });
    begins.map(|(form, word)| (form.len(), *word)).max()
}

/// The words of a text, each once, in the order of the table.
pub(crate) fn used<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<&'static Word> {
    let mut is_used = [false; WORDS.len()];
    for (_, _, word) in texts.into_iter().flat_map(found) {
        is_used[word] = true;
    }
    listed(is_used)
}

/// The words used, and those that explain them.
fn listed(mut is_used: [bool; WORDS.len()]) -> Vec<&'static Word> {
    loop {
        let used = WORDS.iter().zip(is_used).filter(|(_, is_used)| *is_used);
        let mut explaining = used.flat_map(|(word, _)| found(word.means));
        let Some((_, _, new)) = explaining.find(|(_, _, word)| !is_used[*word]) else {
            break;
        };
        is_used[new] = true;
    }
    let used = WORDS.iter().zip(is_used).filter(|(_, is_used)| *is_used);
    used.map(|(word, _)| word).collect()
}

/// The anchor of a word in the list.
fn anchor(word: &Word) -> String {
    let id = word.forms[0].replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    format!("w-{}", id.to_ascii_lowercase())
}

/// Elements in which nothing is linked: what is a link, a name or code already, is drawn, or is not for people.
const LEFT_ALONE: [&str; 13] = [
    "a", "button", "code", "h1", "h2", "h3", "h4", "h5", "nav", "script", "style", "summary", "svg",
];
/// Of these not even the words are listed.
const NOT_READ: [&str; 2] = ["script", "style"];

/// A part of a page with the first use of each word in each section linked to the list, and the words of it.
pub(crate) fn linked(page: &str) -> (String, Vec<&'static Word>) {
    let mut out = String::with_capacity(page.len() + page.len() / 16);
    let mut open: Vec<&str> = Vec::new();
    let mut is_used = [false; WORDS.len()];
    let mut is_linked = [false; WORDS.len()];
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        text_with_links(&mut out, text, &open, &mut is_used, &mut is_linked);
        let end = tag.find('>').map_or(tag.len(), |end| end + 1);
        let (tag, behind) = tag.split_at(end);
        let name = tag.trim_start_matches(['<', '/']);
        let name = &name[..name
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(name.len())];
        if tag.starts_with("</") {
            let _ = open.pop_if(|of| *of == name);
        } else if !tag.ends_with("/>") && (is_left_alone(name, tag) || open.last() == Some(&name)) {
            open.push(name);
        } else if name == "section" {
            is_linked = [false; WORDS.len()];
        }
        out.push_str(tag);
        rest = behind;
    }
    text_with_links(&mut out, rest, &open, &mut is_used, &mut is_linked);
    (out, listed(is_used))
}

/// Whether nothing is linked in an element: also none that assistive technology does not see, where no link may be, and
/// none that eyes do not, where who goes by keyboard would lose the focus.
fn is_left_alone(name: &str, tag: &str) -> bool {
    let is_hidden = [" aria-hidden=\"true\"", " class=\"unseen\""];
    LEFT_ALONE.contains(&name) || is_hidden.iter().any(|mark| tag.contains(mark))
}

fn text_with_links(
    out: &mut String,
    text: &str,
    open: &[&str],
    is_used: &mut [bool; WORDS.len()],
    is_linked: &mut [bool; WORDS.len()],
) {
    let mut told = 0;
    let is_read = !open.iter().any(|of| NOT_READ.contains(of));
    for (at, length, word) in found(text).filter(|_| is_read) {
        is_used[word] = true;
        if open.is_empty() && !std::mem::replace(&mut is_linked[word], true) {
            let (before, form) = (&text[told..at], &text[at..at + length]);
            let to = anchor(&WORDS[word]);
            let _ = write!(out, "{before}<a class=\"word\" href=\"#{to}\">{form}</a>");
            told = at + length;
        }
    }
    out.push_str(&text[told..]);
}

/// The list of a page's words, folded until a link leads to it.
pub(crate) fn section(words: &[&Word]) -> Markup {
    markup! {
        @if !words.is_empty() {
            section #words aria-labelledby="words-h" {
                details.line {
                    summary { h2 #words-h { "Words" } span { (words.len()) " that this report uses, and what they mean" } }
                    dl.words {
                        @for word in words {
                            div id=(anchor(word)) { dt { dfn { (word.forms[0]) } } dd { (word.means) } }
                        }
                    }
                }
            }
        }
    }
}

/// The words of what is printed of a page and what they mean, in a paragraph, for paper.
pub(crate) fn paragraph(page: &str) -> Markup {
    let (_, words) = linked(page);
    markup! {
        @if !words.is_empty() {
            p.small.paper-only.explained { @for word in words { b { (word.forms[0]) } ": " (word.means) ". " } }
        }
    }
}

/// The same list as Markdown, of a whole report.
pub(crate) fn markdown(report: &mut String) {
    let words = used([report.as_str()]);
    if words.is_empty() {
        return;
    }
    report.push_str("## Words\n\n");
    for word in words {
        let _ = writeln!(report, "- **{}**: {}.", word.forms[0], word.means);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use threadgauge_results::Results;

    use super::*;

    /// Every committed run, with its name.
    fn runs() -> Vec<(String, Results)> {
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
        let folders = [runs.clone(), runs.join("golden")];
        let entries = folders.iter().flat_map(|of| std::fs::read_dir(of).unwrap());
        let read = |folder: std::path::PathBuf| {
            let text = std::fs::read_to_string(folder.join("results.json")).ok()?;
            Some((folder.display().to_string(), serde_json::from_str(&text).unwrap()))
        };
        entries.filter_map(|entry| read(entry.unwrap().path())).collect()
    }

    /// What a person reads of a page: no tags, and neither scripts nor styles.
    fn text(page: &str) -> String {
        let mut text = page.to_owned();
        for (start, end) in [("<script", "</script>"), ("<style", "</style>"), ("<", ">")] {
            let mut rest = text.as_str();
            let mut kept = String::new();
            while let Some((before, from)) = rest.split_once(start) {
                kept.push_str(before);
                kept.push(' ');
                rest = from.split_once(end).unwrap().1;
            }
            kept.push_str(rest);
            text = kept;
        }
        text
    }

    /// Whether a text has a word, by another way than the table's.
    fn has(text: &str, form: &str) -> bool {
        let (text, form) = (text.to_lowercase(), form.to_lowercase());
        let mut places = text.match_indices(&form);
        places.any(|(at, form)| {
            let before = text[..at].chars().next_back();
            let behind = text[at + form.len()..].chars().next();
            ![before, behind].into_iter().flatten().any(joins)
        })
    }

    #[test]
    fn every_word_of_a_stored_run_is_explained_in_its_reports_and_none_is_idle() {
        let mut met = BTreeSet::new();
        let runs = runs();
        assert!(runs.len() > 25, "{}", runs.len());
        for (run, results) in runs {
            let (page, report) = (crate::html(&results, &[]), crate::markdown(&results));
            let listed = page.split_once("<section id=\"words\"").unwrap();
            let (list, foot) = listed.1.split_once("</section>").unwrap();
            let (said, list_of_report) = report.split_once("## Words\n").unwrap();
            assert!(!foot.contains("<dfn>"), "{run}");
            let is_listed = |word: &Word| list.contains(&format!("<dfn>{}</dfn>", word.forms[0]));
            let meanings: Vec<&str> = WORDS.iter().filter(|w| is_listed(w)).map(|w| w.means).collect();
            let read = format!("{}\n{}", text(listed.0), meanings.join("\n"));
            let in_report = |word: &Word| list_of_report.contains(&format!("- **{}**: ", word.forms[0]));
            let meanings: Vec<&str> = WORDS.iter().filter(|w| in_report(w)).map(|w| w.means).collect();
            let said = format!("{said}\n{}", meanings.join("\n"));
            for word in WORDS {
                let head = word.forms[0];
                let is_in = |text: &str| word.forms.iter().any(|form| has(text, form));
                assert_eq!(is_listed(word), is_in(&read), "{run}, the page: {head}");
                assert_eq!(in_report(word), is_in(&said), "{run}: {head}");
                if is_in(&read) {
                    met.insert(head);
                }
            }
        }
        let idle: Vec<&str> = WORDS
            .iter()
            .map(|word| word.forms[0])
            .filter(|head| !met.contains(head))
            .collect();
        assert!(idle.is_empty(), "in no stored run: {idle:?}");
    }

    #[test]
    fn the_first_use_of_a_word_in_a_section_is_a_link_and_the_longest_form_counts() {
        let page = "<section><h2>ring, a token</h2><p title=\"token\">A Token. A token &amp; tau; Kendall's tau</p></section>\
                    <section><p>tokens, token_ring, to-token, token</p>\
                    <p aria-hidden=\"true\">quota <b>SMT</b></p><code>futex</code><svg><text>epoll</text></svg></section>\
                    <script>vfork</script>";
        let (linked, words) = linked(page);
        let token = |form: &str| format!("<a class=\"word\" href=\"#w-token\">{form}</a>");
        let tau = "<a class=\"word\" href=\"#w-kendall-s-tau\">tau</a>";
        assert_eq!(
            linked,
            page.replace("A Token", &format!("A {}", token("Token")))
                .replace("; tau;", &format!("; {tau};"))
                .replace(
                    "to-token, token</p>",
                    &format!("to-token, {}</p>", token("token"))
                )
        );
        let named: Vec<&str> = words.iter().map(|word| word.forms[0]).collect();
        // What explains "quota" is explained, too, and so on.
        let explained = [
            "control group",
            "epoll",
            "futex",
            "Kendall's tau",
            "quota",
            "SMT",
            "token",
            "unit",
        ];
        assert_eq!(named, explained);
        let whole = used(["by Kendall's tau"]);
        assert_eq!(whole.len(), 1);
        let list = section(&whole).into_string();
        assert!(list.contains("id=\"w-kendall-s-tau\""), "{list}");
    }

    #[test]
    fn words_are_in_order_differ_and_are_told_in_a_sentence_without_its_end() {
        let heads: Vec<String> = WORDS.iter().map(|word| word.forms[0].to_lowercase()).collect();
        assert!(heads.is_sorted(), "{heads:?}");
        let mut forms: Vec<String> = WORDS
            .iter()
            .flat_map(|word| word.forms)
            .map(|form| form.to_lowercase())
            .collect();
        let all = forms.len();
        forms.sort();
        forms.dedup();
        assert_eq!(forms.len(), all);
        for word in WORDS {
            assert!(
                !word.means.ends_with('.') && word.means.len() <= 140,
                "{}: {}",
                word.forms[0],
                word.means
            );
        }
    }
}
