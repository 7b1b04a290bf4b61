//! Computations of the user's own: the command and the list as typed, and what each takes by itself.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use threadgauge_experiments::each::{EACH, MOST_ITEMS, alone, alone_of};
use threadgauge_lab::launch::Launcher;
use threadgauge_lab::worker::Order;
use threadgauge_results::units::counted;
use threadgauge_results::{Alone, Each, ITEM, Status};

use crate::output::{say, shown};

/// One item may take so long: beyond, a dozen ways to run them all would take days.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// The command as a shell splits it into words, without running one, and the lines of the list; `-` is standard input.
///
/// # Errors
///
/// Says what is missing in the command or in the list.
pub fn typed(command: &str, list: &Path) -> Result<Each> {
    let words = shlex::split(command)
        .filter(|words| !words.is_empty())
        .with_context(|| format!("--each: `{command}` is no command: a quote is open, or it is empty"))?;
    if !words.iter().any(|word| word.contains(ITEM)) {
        bail!(
            "--each: `{command}` has no {ITEM}, which stands for the item; as in --each 'gzip --keep {ITEM}'"
        );
    }
    let lines = match list.to_str() {
        Some("-") => io::read_to_string(io::stdin()),
        _ => fs::read_to_string(list),
    };
    let lines = lines.with_context(|| format!("--items: {} cannot be read as text", shown(list)))?;
    let items: Vec<String> = lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    if !(2..=MOST_ITEMS).contains(&items.len()) {
        bail!(
            "--items: {} has {}, empty lines aside; it needs 2 to {MOST_ITEMS}",
            shown(list),
            counted(items.len(), "item")
        );
    }
    Ok(Each {
        command: words,
        items,
        alone: Vec::new(),
    })
}

/// The same, once each item has had the command to itself: a case of its own, on the CPUs of the run. `None` if the
/// user ends it meanwhile. Blocks.
///
/// # Errors
///
/// If one fails or takes too long.
pub fn by_themselves(each: Each, launcher: &mut Launcher, cpus: &[usize]) -> Result<Option<Each>> {
    say("Each item has the command to itself once, so that it is known how long it takes");
    let mut known: Vec<Alone> = Vec::new();
    for (number, item) in (1..).zip(&each.items) {
        let order = Order {
            experiment: EACH.id.to_owned(),
            params: alone(cpus.len() as u64),
            cpus: cpus.to_vec(),
            handicap_percent: 0,
            launched_ns: 0,
            seed: 0,
            each: Some(Each {
                items: vec![item.clone()],
                ..each.clone()
            }),
            runtime: None,
        };
        let outcome = launcher.run(&order, LONGEST);
        let Some(sample) = outcome.sample.filter(|_| launcher.interrupts().count() == 0) else {
            return Ok(None);
        };
        if outcome.wall >= LONGEST {
            let most = LONGEST.as_secs();
            bail!("item {number} (`{item}`) did not end within {most} s, and was ended");
        }
        if sample.status != Status::Ok {
            let reason = sample.reason.unwrap_or_default();
            // The worker knows of one item alone.
            let reason = reason
                .strip_prefix(&format!("item 1 (`{item}`): "))
                .unwrap_or(&reason);
            bail!("item {number} (`{item}`): {reason}");
        }
        known.push(alone_of(&sample).context("its worker has measured nothing")?);
    }
    Ok(Some(Each { alone: known, ..each }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does_and_has_a_place_for_the_item() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        fs::write(&list, "a b\n\nc\n").unwrap();
        let each = typed("sh -c 'cat \"$1\" | wc' x {}", &list).unwrap();
        assert_eq!(each.command, ["sh", "-c", "cat \"$1\" | wc", "x", "{}"]);
        assert_eq!(each.items, ["a b", "c"]);
        let says = |command, list: &Path| format!("{:#}", typed(command, list).unwrap_err());
        assert!(says("gzip", &list).contains("has no {}"));
        assert!(says("gzip '{}", &list).contains("a quote is open"));
        assert!(says("", &list).contains("is no command"));
        let absent = dir.path().join("absent");
        assert!(says("gzip {}", &absent).contains("cannot be read as text: No such file"));
        for (text, says_so) in [
            ("one\n", "has 1 item,"),
            ("", "has 0 items,"),
            (&"x\n".repeat(1_001), &counted(1_001, "item")),
        ] {
            fs::write(&list, text).unwrap();
            let says = says("gzip {}", &list);
            assert!(says.contains(says_so) && says.contains("2 to 1000"), "{says}");
        }
        fs::write(&list, b"a\n\xff\n").unwrap();
        assert!(says("gzip {}", &list).contains("cannot be read as text"));
    }
}
