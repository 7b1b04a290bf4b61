//! `report.svg` and `report.png`: what a page begins with, as a picture for a chat or an issue. The sayings that this
//! run decided, or what it answers, with the machine, whether it can be trusted, and the day.
//!
//! A picture stands alone. The SVG has colours of its own, which follow the viewer into the dark; the PNG is light.

mod pixels;

use threadgauge_results::units::counted;
use threadgauge_results::{ExperimentResult, KeyNumber, Results, Trust, Trusted, Verdict};

use crate::chart::svg::{Svg, escape, n};
use crate::lead::{self, Lead};
use crate::sayings::{self, Cards, Saying, Told};
use crate::terminal::text::wrap;
use crate::{ReportError, facts, short_answer, words};

/// As wide and as high as a preview of a link.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 675.0;
const EDGE: f64 = 44.0;
/// Where what is said begins, and where it ends beside a figure.
const SAID: f64 = 222.0;
const BESIDE: f64 = 770.0;
/// As wide as what is said below a figure.
const FIGURE: f64 = WIDTH - EDGE - BESIDE - 16.0;
/// Where the rows end.
const FOOT: f64 = HEIGHT - 40.0;

/// Who sees the SVG may have another font than the PNG is written in.
const LIGHT: &str = "text{font-family:Inter,system-ui,'Segoe UI','Helvetica Neue','Liberation Sans',Arial,sans-serif;fill:#1d1d1b}\
    .b{font-weight:600}.soft{fill:#5d5b55}.good{fill:#1d6b3a}.bad{fill:#a3271c}.doubt{fill:#7a5800}\
    .ground{fill:#fdfcf9}.rule{stroke:#d9d5ca;fill:none}";
const DARK: &str = "@media(prefers-color-scheme:dark){text{fill:#e4e1d9}.soft{fill:#a5a198}.good{fill:#7fcf97}\
    .bad{fill:#f2978b}.doubt{fill:#e0bf67}.ground{fill:#17181a}.rule{stroke:#3b3c3f}}";

/// The picture, as SVG.
#[must_use]
pub fn picture(results: &Results) -> String {
    drawn(results, &format!("{LIGHT}{DARK}"))
}

/// The picture, as PNG.
///
/// # Errors
/// Where it cannot be drawn.
pub fn picture_png(results: &Results) -> Result<Vec<u8>, ReportError> {
    pixels::png(&drawn(results, LIGHT))
}

/// The picture in the colours of a style sheet.
fn drawn(results: &Results, style: &str) -> String {
    let cards = Cards::of(results);
    let title = match Lead::of(results) {
        Lead::CostsAndClaims => cards.title(),
        Lead::Answers => lead::headline(results).to_owned(),
    };
    let mut svg = Svg::new();
    let mut y = 22.0;
    for line in lines(&title, WIDTH - 2.0 * EDGE, 28.0, 2) {
        y += 34.0;
        text(&mut svg, (EDGE, y), 28.0, "b", &line);
    }
    let day = results.run.started.get(..10).unwrap_or(&results.run.started);
    y += 30.0;
    text(
        &mut svg,
        (EDGE, y),
        17.0,
        "",
        &format!("{}; {day}", facts::headline(&results.machine)),
    );
    let answer = Trust::of(results).answer;
    let class = match answer {
        Trusted::Yes => "good",
        Trusted::InPart => "doubt",
        Trusted::No => "bad",
    };
    let briefly = Trust::briefly(results);
    let trust = format!("Can this run be trusted? {}: {briefly}", answer.word());
    for line in lines(&trust, WIDTH - 2.0 * EDGE, 15.0, 2) {
        y += 24.0;
        text(&mut svg, (EDGE, y), 15.0, class, &line);
    }
    y += 20.0;
    let rows = cards.sayings.len() + cards.answers.len();
    let height = (FOOT - y) / rows.max(1) as f64;
    let tops = (0..rows).map(|row| y + row as f64 * height);
    for (top, row) in tops.zip(
        cards
            .sayings
            .iter()
            .map(Row::Saying)
            .chain(cards.answers.iter().map(|e| Row::Answer(e))),
    ) {
        svg.line("rule", (EDGE, top), (WIDTH - EDGE, top));
        match row {
            Row::Saying(saying) => said(&mut svg, saying, top, height),
            Row::Answer(e) => answered(&mut svg, e, e.question != title, top, height),
        }
    }
    if rows == 0 {
        text(&mut svg, (EDGE, y + 30.0), 20.0, "", "This run answers nothing.");
    }
    svg.line("rule", (EDGE, FOOT), (WIDTH - EDGE, FOOT));
    let profile = lead::profile(results).map_or_else(String::new, |profile| format!(", profile {profile}"));
    let foot = format!(
        "threadgauge {}{profile}, up to {}; medians with their intervals",
        results.run.version,
        counted(results.run.rounds as usize, "round")
    );
    text(&mut svg, (EDGE, FOOT + 25.0), 14.0, "soft", &foot);
    let [width, height] = [WIDTH, HEIGHT].map(n);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"t d\"><title id=\"t\">{}</title><desc id=\"d\">{}</desc>\
         <style>{style}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>{}</svg>\n",
        escape(&title),
        escape(&in_words(&cards)),
        svg.finish()
    )
}

/// What stands in one row.
enum Row<'a> {
    Saying(&'a Saying<'a>),
    Answer(&'a ExperimentResult),
}

/// What a screen reader hears.
fn in_words(cards: &Cards<'_>) -> String {
    let sayings = cards.sayings.iter().map(|of| {
        let figure = sayings::told(of.claim, of.finding).map_or_else(String::new, |told| told.line());
        format!(
            "{} ({}) {}: {figure}.",
            of.claim.claim,
            sayings::who(of.claim),
            words::word(of.verdict)
        )
    });
    let answers = cards
        .answers
        .iter()
        .map(|e| format!("{} {}", e.question, e.answer));
    sayings.chain(answers).collect::<Vec<_>>().join(" ")
}

/// The verdict, the saying and who said it, and the figure that decides it.
fn said(svg: &mut Svg, of: &Saying<'_>, top: f64, height: f64) {
    let sizes = if height > 140.0 {
        [22.0, 18.0]
    } else {
        [18.0, 16.0]
    };
    let saying = |size| lines(&of.words(), BESIDE - SAID, size, usize::MAX);
    let size = if saying(sizes[0]).len() <= 3 {
        sizes[0]
    } else {
        sizes[1]
    };
    let (saying, step) = (saying(size), 1.28 * size);
    let class = match of.verdict {
        Verdict::Holds => "good",
        Verdict::DoesNotHold => "bad",
        _ => "soft",
    };
    bar(svg, class, top, height);
    text(
        svg,
        (EDGE + 18.0, top + height / 2.0 + 6.0),
        18.0,
        &format!("b {class}"),
        words::word(of.verdict),
    );
    let mut y = top + (height - saying.len() as f64 * step - 18.0) / 2.0 - 5.0;
    for line in saying {
        y += step;
        text(svg, (SAID, y), size, "", &line);
    }
    text(svg, (SAID, y + 19.0), 14.0, "soft", &sayings::who(of.claim));
    let noise = words::noise(of.finding);
    let Some(Told {
        figure,
        interval,
        of,
        rule,
    }) = sayings::told(of.claim, of.finding)
    else {
        return;
    };
    let needs = lines(&format!("needs {rule}"), FIGURE, 12.0, 2);
    let below = [lines(&format!("{of}{noise}"), FIGURE, 12.0, 3), needs].concat();
    figured(svg, &figure, &interval, &below, (top, height));
}

/// A figure at the right of a row, with what is said below it.
fn figured(svg: &mut Svg, figure: &str, interval: &str, below: &[String], (top, height): (f64, f64)) {
    let mut y = top + (height - 34.0 - below.len() as f64 * 15.0) / 2.0 + 27.0;
    let right = WIDTH - EDGE;
    let beside = if interval.is_empty() {
        String::new()
    } else {
        format!("  {interval}")
    };
    svg.raw(&format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\"><tspan font-size=\"28\" class=\"b\">{}</tspan>\
         <tspan font-size=\"14\" class=\"soft\">{}</tspan></text>",
        n(right),
        n(y),
        escape(figure),
        escape(&beside)
    ));
    y += 3.0;
    for line in below {
        y += 15.0;
        svg.raw(&format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"12\" class=\"soft\">{}</text>",
            n(right),
            n(y),
            escape(line)
        ));
    }
}

/// What an experiment answers and advises, as large as it fits beside its number; what it answers alone where both do
/// not.
fn answered(svg: &mut Svg, e: &ExperimentResult, with_question: bool, top: f64, height: f64) {
    const SIZES: [f64; 4] = [24.0, 21.0, 18.0, 16.0];
    bar(svg, "soft", top, height);
    text(svg, (EDGE + 18.0, top + height / 2.0 + 6.0), 15.0, "b", &e.id);
    let number = e.number.as_ref();
    let room = if number.is_some() { BESIDE } else { WIDTH - EDGE } - SAID;
    let head = if with_question {
        lines(&e.question, room, 14.0, 1)
    } else {
        Vec::new()
    };
    let space = height - 18.0 - 20.0 * head.len() as f64;
    let short = short_answer(e);
    let advised = match e.advice.is_empty() || short.contains(&e.advice) {
        true => short.clone(),
        false => format!("{}. {}", short.trim_end_matches('.'), e.advice),
    };
    let ways =
        [&advised, &short].map(|answer| SIZES.map(|size| (size, lines(answer, room, size, usize::MAX))));
    let fits = |(size, lines): &(f64, Vec<String>)| lines.len() as f64 * size * 1.3 <= space;
    let (size, answer) = ways.into_iter().flatten().find(fits).unwrap_or_else(|| {
        let size = SIZES[3];
        (
            size,
            lines(&short, room, size, (space / size / 1.3).max(1.0) as usize),
        )
    });
    let block = answer.len() as f64 * size * 1.3 + 20.0 * head.len() as f64;
    let mut y = top + (height - block) / 2.0;
    for line in head {
        y += 16.0;
        text(svg, (SAID, y), 14.0, "soft", &line);
        y += 4.0;
    }
    for line in answer {
        y += size * 1.3;
        text(svg, (SAID, y - size * 0.3), size, "", &line);
    }
    if let Some(KeyNumber {
        of,
        value,
        ci95,
        unit,
    }) = number
    {
        let (figure, interval) = sayings::in_unit(unit, *value, *ci95);
        figured(
            svg,
            &figure,
            &interval,
            &lines(of, FIGURE, 12.0, 4),
            (top, height),
        );
    }
}

/// The bar at the left of a row.
fn bar(svg: &mut Svg, class: &str, top: f64, height: f64) {
    svg.raw(&format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"5\" height=\"{}\"/>",
        n(EDGE),
        n(top + 12.0),
        n(height - 24.0)
    ));
}

fn text(svg: &mut Svg, (x, y): (f64, f64), size: f64, class: &str, text: &str) {
    svg.raw(&format!(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\" class=\"{class}\">{}</text>",
        n(x),
        n(y),
        n(size),
        escape(text)
    ));
}

/// Text in lines of a width, by a generous guess at its letters; what is beyond the `most` lines is left out, and an
/// ellipsis says so.
fn lines(text: &str, room: f64, size: f64, most: usize) -> Vec<String> {
    let letters = (room / (0.6 * size)) as usize;
    // Code is not told apart here.
    let mut lines = wrap(&text.replace('`', ""), letters, "");
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept: String = last.chars().take(letters - 1).collect();
            *last = format!("{}…", kept.trim_end());
        }
    }
    lines
}
