//! Every published claim, and what a run says of it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, to_value};
use threadgauge_experiments::decided_by;
use threadgauge_machine::{CpuList, fingerprint};
use threadgauge_report::{ClaimRow, claims_table};
use threadgauge_results::published::{named, sources};
use threadgauge_results::{Claim, Decisions, Finding, Offers, claims as all, rule, units};

use crate::cli::{ClaimsOptions, Standing};
use crate::folder;
use crate::output::{Done, Verdict, print, print_json, print_words, style};

/// Prints all of them.
pub fn claims(options: &ClaimsOptions) -> Done {
    let data = options
        .dir
        .as_ref()
        .map(|dir| folder::read_whole(dir))
        .transpose()?;
    let findings: BTreeMap<&str, &Finding> = data
        .iter()
        .flat_map(|d| &d.results.experiments)
        .flat_map(|e| &e.findings)
        .filter_map(|f| Some((f.claim.as_deref()?, f)))
        .collect();
    let finding = |claim: &Claim| findings.get(claim.id.as_str()).copied();
    known(&options.source)?;
    let chosen: Vec<&Claim> = (all().iter())
        .filter(|claim| is_chosen(options, claim, finding(claim)))
        .collect();
    if options.json {
        let rows: Vec<_> = chosen.iter().map(|c| json(c, finding(c))).collect();
        print_json(&rows)?;
    } else {
        let rows: Vec<ClaimRow> = chosen.iter().map(|c| row(c, finding(c))).collect();
        print(&claims_table(&rows, &style()))?;
        let waits = chosen.iter().map(|claim| claim.waits_for);
        print_words(&match &data {
            Some(data) => {
                Decisions::of(waits, offered(&data.results.machine)).says("the machine of this run")
            }
            None => Decisions::of(waits, offered(&to_value(fingerprint())?)).says("this machine"),
        })?;
    }
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

/// Whether a claim is one of those that are asked for.
fn is_chosen(options: &ClaimsOptions, claim: &Claim, finding: Option<&Finding>) -> bool {
    let stands = standing(finding.and_then(|finding| finding.verdict));
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
    (options.verdict.is_empty() || options.verdict.contains(&stands))
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
