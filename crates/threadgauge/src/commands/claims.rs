//! Every published claim, and what a run says of it, or several side by side.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, to_value};
use threadgauge_experiments::decided_by;
use threadgauge_experiments::states::decided_by_states;
use threadgauge_machine::{CpuList, fingerprint};
use threadgauge_report::{ClaimColumns, ClaimRow, Said, claims_beside, claims_table};
use threadgauge_results::published::{named, sources};
use threadgauge_results::{
    Claim, Decisions, Finding, Offers, Repeated, RunData, between_sides, check_sides, claims as all,
    column_names, rule, units,
};

use crate::cli::{ClaimsOptions, Standing};
use crate::folder;
use crate::output::{Done, Verdict, print, print_json, print_words, say, style};

/// Prints all of them.
pub fn claims(options: &ClaimsOptions) -> Done {
    known(&options.source)?;
    let sides = options.operands.sides(folder::read_whole)?;
    if sides.iter().map(|side| side.runs.len()).sum::<usize>() > 1 {
        return beside(&sides, options);
    }
    let data = sides.first().map(|side| &side.runs[0]);
    let findings = data.map_or_else(BTreeMap::new, findings);
    let finding = |claim: &Claim| findings.get(claim.id.as_str()).copied();
    let chosen: Vec<&Claim> = (all().iter())
        .filter(|claim| is_chosen(options, claim, &[finding(claim)]))
        .collect();
    if options.json {
        let rows: Vec<_> = chosen.iter().map(|c| json(c, finding(c))).collect();
        print_json(&rows)?;
    } else {
        let rows: Vec<ClaimRow> = chosen.iter().map(|c| row(c, finding(c))).collect();
        print(&claims_table(&rows, &style()))?;
        let waits = chosen.iter().map(|claim| claim.waits_for);
        print_words(&match data {
            Some(data) => {
                Decisions::of(waits, offered(&data.results.machine)).says("the machine of this run")
            }
            None => Decisions::of(waits, offered(&to_value(fingerprint())?)).says("this machine"),
        })?;
    }
    Ok(Verdict::Done)
}

/// What a run found, by claim.
type Findings<'a> = BTreeMap<&'a str, &'a Finding>;

fn findings(data: &RunData) -> Findings<'_> {
    let findings = data.results.experiments.iter().flat_map(|e| &e.findings);
    findings.filter_map(|f| Some((f.claim.as_deref()?, f))).collect()
}

/// Prints what each of several runs says, a column a side, and what they say together of two states of a machine. Sides
/// are held to what `compare` holds them to.
fn beside(sides: &[Repeated], options: &ClaimsOptions) -> Done {
    check_sides(sides)?;
    let by_states = decided_by_states(sides);
    let together = |claim: &Claim| by_states.iter().find(|found| found.claim.id == claim.id);
    let names = column_names(sides, !options.operands.name.is_empty());
    let warnings = between_sides(sides, &names);
    let columns: Vec<(String, Vec<(&RunData, Findings<'_>)>)> = (names.into_iter().zip(sides))
        .map(|(name, side)| (name, side.runs.iter().map(|run| (run, findings(run))).collect()))
        .collect();
    let of = |claim: &Claim| -> Vec<Option<&Finding>> {
        let runs = columns.iter().flat_map(|(_, runs)| runs);
        match together(claim) {
            Some(found) => vec![Some(&found.finding)],
            None => runs
                .map(|(_, findings)| findings.get(claim.id.as_str()).copied())
                .collect(),
        }
    };
    let chosen = all().iter().filter(|claim| is_chosen(options, claim, &of(claim)));
    if options.json {
        let rows = chosen.map(|claim| {
            let columns = columns.iter().map(|(name, runs)| {
                let runs = runs.iter().map(|(run, findings)| {
                    let finding = findings.get(claim.id.as_str()).copied();
                    serde_json::json!({"folder": run.name, "state": state(claim, finding), "finding": finding})
                });
                serde_json::json!({"name": name, "runs": runs.collect::<Vec<_>>()})
            });
            serde_json::json!({
                "id": claim.id, "source": claim.source, "claim": claim.claim, "rule": claim.rule,
                "statistic": claim.statistic, "precondition": claim.precondition, "note": claim.note,
                "columns": columns.collect::<Vec<_>>(),
                "together": together(claim).map(|found| serde_json::json!({
                    "state": state(claim, Some(&found.finding)), "finding": found.finding, "by": found.by,
                })),
            })
        });
        print_json(&rows.collect::<Vec<_>>())?;
        // The document is a list of claims, and has no room for them.
        for warning in &warnings {
            say(warning);
        }
        return Ok(Verdict::Done);
    }
    let said = |claim: &Claim, finding: Option<&Finding>| {
        let row = row(claim, finding);
        Said {
            state: row.state,
            measured: row.measured,
            reason: row.reason,
        }
    };
    let rows = chosen.map(|claim| ClaimColumns {
        claim: row(claim, None),
        together: together(claim).map(|found| {
            let said = said(claim, Some(&found.finding));
            let by = found
                .by
                .as_ref()
                .map_or_else(String::new, |by| format!(" by {by}"));
            Said {
                measured: said.measured.map(|measured| measured + &by),
                ..said
            }
        }),
        columns: columns
            .iter()
            .map(|(name, runs)| {
                let said = runs
                    .iter()
                    .map(|(_, findings)| said(claim, findings.get(claim.id.as_str()).copied()));
                (name.clone(), said.collect())
            })
            .collect(),
    });
    print(&claims_beside(&rows.collect::<Vec<_>>(), &warnings, &style()))?;
    Ok(Verdict::Done)
}

/// What a machine offers, by its fingerprint.
fn offered(machine: &Value) -> Offers {
    let allowed = machine["allowed_cpus"]
        .as_str()
        .and_then(|list| list.parse().ok());
    let cpus = allowed.map_or(1, |list: CpuList| list.iter().count());
    let siblings = machine["topology"]["smt_siblings"].as_array();
    Offers {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        siblings: siblings.is_some_and(|of| !of.is_empty()),
    }
}

/// Whether each name means a source.
fn known(names: &[String]) -> Result<()> {
    for name in names {
        if !sources().iter().any(|source| source.is_meant_by(name)) {
            let all: Vec<String> = sources().iter().map(|of| format!("{} ({of})", of.id)).collect();
            bail!("no source is called `{name}`; there are {}", all.join(", "));
        }
    }
    Ok(())
}

/// Whether a claim is one of those that are asked for, by what any of these runs found.
fn is_chosen(options: &ClaimsOptions, claim: &Claim, findings: &[Option<&Finding>]) -> bool {
    let stands = |finding: &Option<&Finding>| {
        let standing = standing(finding.and_then(|finding| finding.verdict));
        options.verdict.contains(&standing)
    };
    let is_of = |name: &String| {
        let mut of = sources()
            .iter()
            .filter(|source| claim.source.split('+').any(|id| id == source.id));
        of.any(|source| source.is_meant_by(name))
    };
    let says = |words: &String| {
        let all = [
            &claim.id,
            &claim.claim,
            &claim.quantity,
            &claim.statistic,
            &claim.note,
        ];
        let words = words.to_lowercase();
        all.iter().any(|text| text.to_lowercase().contains(&words))
    };
    (options.verdict.is_empty() || findings.iter().any(stands))
        && (options.source.is_empty() || options.source.iter().any(is_of))
        && options.text.as_ref().is_none_or(says)
}

const fn standing(verdict: Option<threadgauge_results::Verdict>) -> Standing {
    use threadgauge_results::Verdict;
    match verdict {
        Some(Verdict::Holds) => Standing::Held,
        Some(Verdict::DoesNotHold) => Standing::NotHeld,
        Some(Verdict::NotTestable) => Standing::Elsewhere,
        Some(Verdict::Inconclusive | Verdict::NotMeasured) | None => Standing::Open,
    }
}

/// Where a claim stands: its verdict, or which experiment would decide it.
fn state(claim: &Claim, finding: Option<&Finding>) -> String {
    if let Some(verdict) = finding.and_then(|f| f.verdict) {
        return verdict.key().to_owned();
    }
    match decided_by(&claim.id) {
        Some((experiment, true)) => format!("not run: {experiment}"),
        Some((experiment, false)) => format!("planned: {experiment}"),
        None => "planned".to_owned(),
    }
}

fn row(claim: &Claim, finding: Option<&Finding>) -> ClaimRow {
    let figure = |f: &Finding| {
        let figure = units::with_unit(f.measured?, f.ci95, &f.unit);
        Some(match f.recreated {
            Some(_) => format!("{figure}, re-created on this kernel"),
            None => figure,
        })
    };
    ClaimRow {
        id: claim.id.clone(),
        source: named(&claim.source),
        claim: claim.claim.clone(),
        rule: format!("{}: {}", claim.measures(), rule(claim)),
        state: state(claim, finding),
        measured: finding.and_then(figure),
        published: (!claim.published_value.is_empty()).then(|| claim.published_value.clone()),
        reason: finding.and_then(|f| f.reason.clone()),
        note: (!claim.note.is_empty()).then(|| claim.note.clone()),
    }
}

fn json(claim: &Claim, finding: Option<&Finding>) -> Value {
    serde_json::json!({
        "id": claim.id, "source": claim.source, "claim": claim.claim, "rule": claim.rule,
        "statistic": claim.statistic, "precondition": claim.precondition,
        "waits_for": claim.waits_for, "note": claim.note,
        "state": state(claim, finding), "finding": finding,
    })
}
