//! The picture to share, of every committed run: whole, within its edges, and the same as the page's cards.

use resvg::tiny_skia::Pixmap;
use roxmltree::{Document, Node};
use threadgauge_report::{picture, picture_png};

use super::first::{Run, cards, part, runs, text};

const SIZE: (u32, u32) = (1200, 675);

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

/// What is written in a picture, a line each.
fn lines<'a>(picture: &'a Document<'a>) -> Vec<Node<'a, 'a>> {
    picture
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .collect()
}

/// All words of a node, in their order.
fn said(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter(Node::is_text)
        .filter_map(|node| node.text())
        .collect()
}

#[test]
fn it_says_each_card_of_the_page_with_who_said_it_the_figure_and_the_verdict() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all = 0;
    for Run { name, results, page } in runs() {
        let svg = picture(results);
        let drawn = Document::parse(&svg).unwrap();
        let written: Vec<String> = lines(&drawn).into_iter().map(said).collect();
        let written = words(&written.join(" "));
        let (sayings, answers) = cards(page);
        for card in sayings {
            for class in ["saying", "by", "of"] {
                let says = words(&unescaped(&text(part(card, class))));
                assert!(written.contains(&says), "{name}: {class}: {says}: {written}");
            }
            let figure = unescaped(&text(part(card, "figure")));
            assert!(written.contains(&words(&figure)), "{name}: {figure}: {written}");
            let verdict = if card.starts_with("holds") {
                "holds"
            } else {
                "does not hold"
            };
            assert!(written.contains(verdict), "{name}: {written}");
            all += 1;
        }
        for card in answers {
            let says = words(&unescaped(&text(part(card, "said"))).replace('`', ""));
            let first: Vec<&str> = says.split(' ').take(8).collect();
            assert!(written.contains(&first.join(" ")), "{name}: {says}: {written}");
            all += 1;
        }
        assert!(written.contains("Can this run be trusted?"), "{name}");
        assert!(written.contains(&results.run.started[..10]), "{name}");
    }
    assert!(all > 60, "{all} cards");
}

fn unescaped(text: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    signs
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn nothing_is_beyond_its_edges_or_on_another_line() {
    /// Of a letter to its height, in a font that is a wide one.
    const LETTER: f64 = 0.6;
    let [width, height] = [SIZE.0, SIZE.1].map(f64::from);
    for Run { name, results, .. } in runs() {
        let svg = picture(results);
        let drawn = Document::parse(&svg).unwrap();
        let mut boxes: Vec<([f64; 4], String)> = Vec::new();
        for line in lines(&drawn) {
            let parts: Vec<_> = line
                .descendants()
                .filter(|node| node.attribute("font-size").is_some())
                .collect();
            let long: f64 = (parts.iter())
                .map(|part| said(*part).trim().chars().count() as f64 * LETTER * number(*part, "font-size"))
                .sum();
            let size = parts
                .iter()
                .map(|part| number(*part, "font-size"))
                .fold(0.0, f64::max);
            let (x, y) = (number(line, "x"), number(line, "y"));
            let left = if line.attribute("text-anchor") == Some("end") {
                x - long
            } else {
                x
            };
            let says = said(line);
            assert!(
                left >= 40.0 && left + long <= width - 20.0,
                "{name}: {left} and {long}: {says}"
            );
            assert!(y <= height - 12.0, "{name}: {y}: {says}");
            let own = [left, left + long, y - 0.7 * size, y];
            for (other, said) in &boxes {
                let apart =
                    own[0] >= other[1] || other[0] >= own[1] || own[2] >= other[3] || other[2] >= own[3];
                assert!(apart, "{name}: \"{says}\" lies on \"{said}\"");
            }
            boxes.push((own, says));
        }
        assert!(boxes.len() > 5, "{name}");
    }
}

#[test]
fn as_png_it_has_its_size_and_is_written_on() {
    for Run { name, results, .. } in runs() {
        let pixels = Pixmap::decode_png(&picture_png(results).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), SIZE, "{name}");
        let ground = pixels.pixel(1, 1).unwrap();
        assert!(
            ground.alpha() == 255 && ground.red() > 240,
            "{name}: the ground is light"
        );
        let ink = pixels.pixels().iter().filter(|pixel| **pixel != ground).count();
        let share = ink as f64 / f64::from(SIZE.0 * SIZE.1);
        assert!(
            (0.01..0.3).contains(&share),
            "{name}: {share} of it is written on"
        );
    }
}
