//! Runs side by side: what changed, and whether too much did.

use anyhow::bail;
use threadgauge_report::{
    columns_html, columns_json, columns_markdown, columns_text, comparison_badge, comparison_badge_svg,
    comparison_github, comparison_html, comparison_json, comparison_junit, comparison_markdown,
    comparison_text,
};
use threadgauge_results::outside::clean;
use threadgauge_results::units::counted;
use threadgauge_results::{Compared, Gate, Judged, Repeated, Results, compare_sides, side_by_side};

use crate::cli::{CompareOptions, Format};
use crate::commands::rerun::rerun;
use crate::folder;
use crate::output::{Done, Verdict, print, print_as_it_is, print_json_text, say, style};

/// Prints what changed from A to B, and with `--fail-on` the exit code says whether too much did; of more than two, a
/// column each.
pub fn compare(options: &CompareOptions) -> Done {
    let sides = options.operands.sides(folder::read)?;
    match &sides[..] {
        [a, b] => two(a, b, options),
        [_, _, ..] => columns(&sides, options),
        _ => bail!(
            "{} to compare: two are needed, as in `compare before after`",
            counted(sides.len(), "side")
        ),
    }
}

fn two(a: &Repeated, b: &Repeated, options: &CompareOptions) -> Done {
    let compared = compare_sides(a, b)?;
    if compared.rows.is_empty() {
        return Err(
            anyhow::anyhow!("{} and {} have no case in common", a.name, b.name)
                .context("nothing can be compared"),
        );
    }
    let gate = Gate::of(&options.fail_on);
    let compared = match &options.rerun {
        Some(program) => rerun(
            compared,
            [a, b].map(|side| &first(side).run),
            program,
            gate.as_ref(),
        )?,
        None => compared,
    };
    let judged = gate.map(|gate| gate.judge(&compared));
    print_as(options.format(), &compared, [a, b], judged.as_ref())?;
    let Some(judged) = judged else {
        return Ok(Verdict::Done);
    };
    say_breaches(&judged);
    Ok(if judged.passed {
        Verdict::Done
    } else {
        Verdict::CheckFailed
    })
}

fn print_as(
    format: Format,
    compared: &Compared,
    sides: [&Repeated; 2],
    judged: Option<&Judged>,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&comparison_text(compared, &style())),
        Format::Markdown => print(&comparison_markdown(compared, judged)),
        Format::Json => print_json_text(&comparison_json(compared, judged)),
        Format::Html => print_as_it_is(&comparison_html(compared, sides.map(first), judged)),
        Format::Junit => print_as_it_is(&comparison_junit(compared, judged)?),
        // Its lines are commands, and what others wrote is encoded in them.
        Format::Github => print_as_it_is(&comparison_github(compared, judged)),
        Format::Badge => print_json_text(&comparison_badge(compared, judged)),
        Format::BadgeSvg => print_as_it_is(&comparison_badge_svg(compared, judged)),
    }
}

/// The run of a side whose charts are drawn.
fn first(side: &Repeated) -> &Results {
    &side.runs[0].results
}

fn say_breaches(judged: &Judged) {
    for breach in &judged.breaches {
        let case = breach
            .case
            .as_ref()
            .map_or_else(String::new, |case| format!("{}: ", clean(case)));
        say(&format!("{case}{}", breach.says));
    }
    say(&format!("{judged}."));
}

fn columns(sides: &[Repeated], options: &CompareOptions) -> Done {
    if !options.fail_on.is_empty() || options.rerun.is_some() {
        bail!(
            "--fail-on and --rerun hold one side against another, and these are {}: compare two, or name the base with --base",
            sides.len()
        );
    }
    let of = side_by_side(sides, !options.operands.name.is_empty())?;
    if of.rows.is_empty() {
        bail!("no two of these have a case in common: nothing can be compared");
    }
    let runs: Vec<&Results> = sides.iter().map(first).collect();
    match options.format() {
        Format::Text => print(&columns_text(&of, &runs, &style())),
        Format::Markdown => print(&columns_markdown(&of, &runs)),
        Format::Json => print_json_text(&columns_json(&of, &runs)),
        Format::Html => print_as_it_is(&columns_html(&of, &runs)),
        Format::Junit | Format::Github | Format::Badge | Format::BadgeSvg => {
            bail!(
                "junit, github, badge and badge-svg say what became of one side against another: compare two"
            )
        }
    }?;
    Ok(Verdict::Done)
}
