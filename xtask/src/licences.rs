//! `cargo xtask licences`: may every dependency be shipped inside a program under MIT OR Apache-2.0?
//!
//! Reads what cargo knows of every package the lock names, on all platforms, tests included. Owns the
//! list of welcome licences; reading an expression is [`crate::spdx`]'s.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{shell, spdx::Expression};

/// Licences that ask for no more than their notice. A new name here is a decision: say why beside it.
const WELCOME: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// What our own packages are under.
const OURS: &str = "MIT OR Apache-2.0";

/// Fails naming every package whose licence is not welcome.
pub fn check() -> Result<()> {
    let metadata = shell::metadata()?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let faults: Vec<String> = packages.iter().filter_map(fault).collect();
    if !faults.is_empty() {
        bail!(
            "{} of {} packages:\n{}\nchoose another crate, or add the licence to WELCOME in xtask/src/licences.rs with the reason",
            faults.len(),
            packages.len(),
            faults.join("\n")
        );
    }
    eprintln!("{} packages, every licence welcome", packages.len());
    Ok(())
}

fn fault(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    let licence = package["license"].as_str();
    if package["source"].is_null() {
        return (licence != Some(OURS)).then(|| format!("  {name}: ours, and must say license = {OURS:?}"));
    }
    let Some(licence) = licence else {
        return Some(format!("  {name}: states no licence expression"));
    };
    match Expression::parse(licence) {
        Err(error) => Some(format!("  {name}: licence {licence:?} cannot be read: {error}")),
        Ok(expression) if expression.allows(&|name| WELCOME.contains(&name)) => None,
        Ok(_) => Some(format!("  {name}: licence {licence:?} is not welcome")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_foreign_package_is_judged_by_its_expression() {
        let package = |licence: Value| json!({"name": "a", "version": "1.0.0", "source": "registry", "license": licence});
        assert_eq!(fault(&package(json!("MIT OR GPL-3.0-only"))), None);
        assert_eq!(
            fault(&package(json!("GPL-3.0-only"))).unwrap(),
            "  a 1.0.0: licence \"GPL-3.0-only\" is not welcome"
        );
        assert_eq!(
            fault(&package(Value::Null)).unwrap(),
            "  a 1.0.0: states no licence expression"
        );
        assert!(
            fault(&package(json!("MIT AND")))
                .unwrap()
                .contains("cannot be read")
        );
    }

    #[test]
    fn our_own_packages_are_under_both() {
        let package =
            |licence: Value| json!({"name": "a", "version": "1.0.0", "source": null, "license": licence});
        assert_eq!(fault(&package(json!(OURS))), None);
        assert!(fault(&package(json!("MIT"))).is_some());
        assert!(fault(&package(Value::Null)).is_some());
    }
}
