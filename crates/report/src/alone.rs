//! A chart as a file of its own, as SVG, for a document or an issue: with its title, what to see, and the legend that
//! is HTML in a page. It has the page's colours, which follow the viewer into the dark.

use threadgauge_results::units::counted;
use threadgauge_results::{Figure, Results};

use crate::chart::svg::{Size, Svg, escape, n};
use crate::chart::{Panel, TABLE_BELOW, called, draw};
use crate::facts::headline;
use crate::terminal::text::wrap;

const COLOURS: &str = include_str!("html/colours.css");
const OWN: &str = ".chart{font-size:13px}text{font-family:Inter,system-ui,'Segoe UI','Helvetica Neue','Liberation \
                   Sans',Arial,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}.ground{fill:var(--paper)}";
const EDGE: f64 = 24.0;
/// From one line of words to the next.
const LINE: f64 = 18.0;

/// The chart of a figure, with `foot` below it: where the figures are from.
#[must_use]
pub fn chart_svg(figure: &Figure, foot: &str) -> String {
    let drawing = draw(figure, "c");
    let full = Size::Wide.width();
    let mut svg = Svg::new();
    let mut y = EDGE;
    let say = |svg: &mut Svg, y: &mut f64, words: &str, size: f64, attributes: &str| {
        // As wide as letters of any font may be.
        for line in wrap(words, (full / (0.55 * size)) as usize, "") {
            *y += size * 1.35;
            svg.raw(&format!(
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\" {attributes}>{}</text>",
                n(EDGE),
                n(*y),
                n(size),
                escape(&line)
            ));
        }
    };
    say(&mut svg, &mut y, &figure.title, 20.0, "font-weight=\"600\"");
    y += 4.0;
    say(&mut svg, &mut y, &figure.note, 14.0, "class=\"soft\"");
    y += LINE;
    if let Some(alike) = &drawing.alike {
        say(&mut svg, &mut y, alike, 14.0, "");
    } else if drawing.panels.is_empty() {
        say(&mut svg, &mut y, "There is nothing to draw.", 14.0, "");
    }
    for panel in &drawing.panels {
        let picture = &panel.wide;
        // Here is none.
        let drawn = picture.svg.replace(TABLE_BELOW, "");
        svg.raw(&placed(&drawn, (EDGE, y), Some((full, picture.height))));
        y += picture.height + LINE / 2.0;
        legend(&mut svg, &mut y, figure, panel);
    }
    for same in &drawing.same {
        say(&mut svg, &mut y, same, 12.0, "class=\"soft\"");
    }
    if drawing.left_out > 0 {
        let points = counted(drawing.left_out, "point");
        let left_out = format!("{points} cannot stand on these axes.");
        say(&mut svg, &mut y, &left_out, 12.0, "class=\"soft\"");
    }
    y += LINE / 2.0;
    say(&mut svg, &mut y, foot, 12.0, "class=\"soft\"");
    let [width, height] = [full + 2.0 * EDGE, y + EDGE].map(n);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"t d\"><title id=\"t\">{}</title><desc id=\"d\">{}</desc>\
         <style>{COLOURS}{OWN}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>{}</svg>\n",
        escape(&figure.title),
        escape(&figure.note),
        svg.finish()
    )
}

/// The chart of a figure of a run.
#[must_use]
pub fn run_chart_svg(results: &Results, figure: &Figure) -> String {
    let run = &results.run;
    let day = run.started.get(..10).unwrap_or(&run.started);
    let on = headline(&results.machine);
    chart_svg(figure, &format!("threadgauge {}, {day}. {on}.", run.version))
}

/// A line for each series that has no name in the chart.
fn legend(svg: &mut Svg, y: &mut f64, figure: &Figure, panel: &Panel) {
    let all = panel.shown.iter().zip(&panel.swatches).zip(&panel.wide.is_named);
    for ((series, swatch), _) in all.filter(|(_, is_named)| !**is_named) {
        *y += LINE;
        svg.raw(&placed(swatch, (EDGE, *y - 11.0), None));
        svg.raw(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"13\">{}</text>",
            n(EDGE + 50.0),
            n(*y),
            escape(&called(&figure.series[*series]))
        ));
    }
}

/// A picture at a place of another one, of a size if it has none.
fn placed(svg: &str, (x, y): (f64, f64), size: Option<(f64, f64)>) -> String {
    let size = size.map_or_else(String::new, |(width, height)| {
        format!(" width=\"{}\" height=\"{}\"", n(width), n(height))
    });
    svg.replacen("<svg", &format!("<svg x=\"{}\" y=\"{}\"{size}", n(x), n(y)), 1)
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Axis, Origin, Point, Scale, Series};

    use super::*;

    #[test]
    fn it_stands_alone_with_its_words_its_legend_and_where_it_is_from() {
        let series = |name: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            origin: Origin::Ideal,
            points: points
                .iter()
                .map(|&(x, y)| Point {
                    x,
                    label: None,
                    y,
                    ci95: None,
                })
                .collect(),
        };
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Log,
        };
        let line = [(1.0, 90.0), (2.0, 50.0), (4.0, 30.0)];
        let figure = Figure {
            id: "f".to_owned(),
            title: "How <many>?".to_owned(),
            note: "Four are best.".to_owned(),
            x: axis("tasks at once"),
            y: axis("time, ms"),
            series: vec![
                series("threads", &line),
                series("advised: 2 threads", &[(2.0, 50.0)]),
            ],
        };
        let svg = chart_svg(&figure, "From run 1.");
        for said in [
            "How &lt;many&gt;?",
            "Four are best.",
            "From run 1.",
            "advised: 2 threads",
            "--s1:",
        ] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        // There is no table, and the only mark is around none.
        for not_said in [TABLE_BELOW, "Marks around"] {
            assert!(!svg.contains(not_said), "{not_said}: {svg}");
        }
        let nothing = chart_svg(
            &Figure {
                series: Vec::new(),
                ..figure
            },
            "",
        );
        assert!(nothing.contains("There is nothing to draw."), "{nothing}");
    }
}
