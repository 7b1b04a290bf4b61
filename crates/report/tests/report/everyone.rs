//! What a screen reader meets in the page of every committed run: places, links and scrolling boxes by names of their
//! own, and no head of a table without words. `tests/browser` asks the rest, in a browser.

use std::collections::HashSet;

use super::first::{Run, runs, text};

/// The texts of all elements that begin so, to the next `end`.
fn texts<'a>(page: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = String> + 'a {
    let parts = page.split(start).skip(1);
    parts.map(move |part| text(part.split_once(end).map_or(part, |(inside, _)| inside)))
}

#[test]
fn no_two_places_links_or_boxes_of_a_page_have_one_name() {
    for Run { name, page, .. } in runs() {
        let (page, _script) = page.rsplit_once("<script>").unwrap();
        let mut seen = HashSet::new();
        let boxes = super::attributes(page, "aria-label")
            .into_iter()
            .map(str::to_owned);
        let sections = page.split("<section").skip(1).filter_map(|section| {
            let (_, id) = section.split_once("aria-labelledby=\"")?;
            let id = id.split('"').next()?;
            texts(page, &format!("id=\"{id}\">"), "</h").next()
        });
        for label in boxes.chain(sections) {
            assert!(seen.insert(label.clone()), "{name}: {label}");
        }
        assert!(seen.len() > 3, "{name}: {seen:?}");
    }
}

#[test]
fn no_head_of_a_table_is_empty() {
    for Run { name, page, .. } in runs() {
        let heads: Vec<String> = texts(page, "<th scope", "</th>")
            .map(|head| {
                head.split_once('>')
                    .map_or(head.clone(), |(_, words)| words.to_owned())
            })
            .collect();
        assert!(!heads.is_empty(), "{name}");
        assert!(
            heads.iter().all(|head| !head.trim().is_empty()),
            "{name}: {heads:?}"
        );
    }
}
