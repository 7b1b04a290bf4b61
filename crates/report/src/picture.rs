//! `report.svg`: what things cost here, or what the experiments answer, with the machine and the date in one picture,
//! for a chat or an issue.
//!
//! A picture stands alone: its colours are its own, and follow the viewer into the dark.

use threadgauge_results::Results;
use threadgauge_results::units::counted;

use crate::chart::svg::{Svg, escape, n};
use crate::costs::{self, Row};
use crate::facts;
use crate::lead::{self, Lead};
use crate::terminal::text::wrap;

const WIDTH: f64 = 900.0;
const EDGE: f64 = 28.0;
const LINE: f64 = 34.0;
/// Where names end and scales are; figures stand at the right edge.
const SCALE: [f64; 2] = [400.0, 660.0];

const STYLE: &str = "text{font:14px system-ui,'Segoe UI','Helvetica Neue','Liberation Sans',Arial,sans-serif;fill:#1d1d1b}\
    .h{font-size:22px;font-weight:600}.soft{fill:#5d5b55;font-size:12px}.n{font-weight:600}\
    .ground{fill:#fdfcf9}.rule{stroke:#d9d5ca;fill:none}.mark{fill:#0b5fa5}.range{stroke:#0b5fa5;stroke-width:5;opacity:.45}\
    @media(prefers-color-scheme:dark){text{fill:#e4e1d9}.soft{fill:#a5a198}.ground{fill:#17181a}.rule{stroke:#3b3c3f}\
    .mark{fill:#6cb2f2}.range{stroke:#6cb2f2}}";

/// Characters of a line: of the headline, and of an answer.
const HEADLINE: usize = 70;
const ANSWER: usize = 112;

/// The picture, as SVG.
#[must_use]
pub fn picture(results: &Results) -> String {
    let groups = costs::listed(results);
    let run = &results.run;
    let headline = lead::headline(results);
    let mut body = Svg::new();
    let mut y = 16.0;
    for line in wrap(headline, HEADLINE, "") {
        y += 28.0;
        body.text(EDGE, y, "start", "h", &line);
    }
    y += 22.0;
    body.text(EDGE, y, "start", "soft", &facts::headline(&results.machine));
    y += 18.0;
    for group in &groups {
        body.line("rule", (EDGE, y), (WIDTH - EDGE, y));
        for row in &group.rows {
            y += LINE;
            line(&mut body, row, y - 12.0);
        }
        if !group.ticks.is_empty() {
            y += 18.0;
            for (at, label) in &group.ticks {
                body.text(on_scale(*at), y - 4.0, "middle", "soft", label);
            }
        }
        y += 8.0;
    }
    if Lead::of(results) == Lead::Answers {
        let answered = results.experiments.iter().filter(|e| !e.answer.is_empty());
        for line in answered.flat_map(|e| wrap(&e.answer, ANSWER, "")) {
            y += LINE / 2.0 + 4.0;
            body.text(EDGE, y, "start", "", &line);
        }
        y += LINE / 2.0;
    } else if groups.is_empty() {
        y += LINE;
        body.text(
            EDGE,
            y - 12.0,
            "start",
            "",
            "This run measured nothing that belongs here.",
        );
    }
    let day = run.started.get(..10).unwrap_or(&run.started);
    let foot = format!(
        "{day}, {}up to {}; medians with their intervals. threadgauge {}",
        lead::profile(results).map_or_else(String::new, |profile| format!("profile {profile}, ")),
        counted(run.rounds as usize, "round"),
        run.version
    );
    body.text(EDGE, y + 18.0, "start", "soft", &foot);
    let height = y + 36.0;
    let [width, height] = [WIDTH, height].map(n);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"t\"><title id=\"t\">{}</title>\
         <style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>{}</svg>\n",
        escape(headline),
        body.finish()
    )
}

fn line(svg: &mut Svg, row: &Row<'_>, y: f64) {
    svg.text(EDGE, y, "start", "", row.name);
    svg.text(WIDTH - EDGE, y, "end", "n", &row.figure);
    let Some(places) = row.places else { return };
    let [low, at, high] = places.map(on_scale);
    let middle = y - 5.0;
    svg.line("rule", (SCALE[0], middle), (SCALE[1], middle));
    svg.line("range", (low, middle), (high.max(low + 2.0), middle));
    svg.raw(&format!(
        "<circle class=\"mark\" cx=\"{}\" cy=\"{}\" r=\"6\"/>",
        n(at),
        n(middle)
    ));
}

fn on_scale(place: f64) -> f64 {
    SCALE[0] + place * (SCALE[1] - SCALE[0])
}
