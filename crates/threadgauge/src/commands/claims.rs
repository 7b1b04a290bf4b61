//! Every published claim, and what a run says of it.

use std::collections::BTreeMap;

use threadgauge_experiments::decided_by;
use threadgauge_report::{ClaimRow, claims_table};
use threadgauge_results::published::named;
use threadgauge_results::{Claim, Finding, claims as all, units};

use crate::cli::ClaimsOptions;
use crate::folder;
use crate::output::{Done, Verdict, print, print_json, style};

/// Prints all of them.
pub fn claims(options: &ClaimsOptions) -> Done {
    let data = options.dir.as_ref().map(|dir| folder::read(dir)).transpose()?;
    let findings: BTreeMap<&str, &Finding> = data
        .iter()
        .flat_map(|d| &d.results.experiments)
        .flat_map(|e| &e.findings)
        .filter_map(|f| Some((f.claim.as_deref()?, f)))
        .collect();
    let finding = |claim: &Claim| findings.get(claim.id.as_str()).copied();
    if options.json {
        let rows: Vec<_> = all().iter().map(|c| json(c, finding(c))).collect();
        print_json(&rows)?;
    } else {
        let rows: Vec<ClaimRow> = all().iter().map(|c| row(c, finding(c))).collect();
        print(&claims_table(&rows, &style()))?;
    }
    Ok(Verdict::Done)
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
    let figure = |f: &Finding| Some(units::with_unit(f.measured?, f.ci95, &f.unit));
    ClaimRow {
        id: claim.id.clone(),
        source: named(&claim.source),
        claim: claim.claim.clone(),
        state: state(claim, finding),
        measured: finding.and_then(figure),
        published: (!claim.published_value.is_empty()).then(|| claim.published_value.clone()),
        reason: finding.and_then(|f| f.reason.clone()),
        note: (!claim.note.is_empty()).then(|| claim.note.clone()),
    }
}

fn json(claim: &Claim, finding: Option<&Finding>) -> serde_json::Value {
    serde_json::json!({
        "id": claim.id, "source": claim.source, "claim": claim.claim, "rule": claim.rule,
        "statistic": claim.statistic, "precondition": claim.precondition, "note": claim.note,
        "state": state(claim, finding), "finding": finding,
    })
}
