//! Which protocols run on which designs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use threadgauge_reactor::{AtOnce, BuiltIn, Design, Memory};

/// What each design serves, and the reasons where it does not; then what each protocol and design is. It reads well on
/// a narrow terminal too, where columns are lost.
pub fn text() -> String {
    let width = Design::ALL.iter().map(|it| it.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut refusals: Vec<(&str, Vec<&str>)> = Vec::new();
    for &design in Design::ALL {
        let _ = write!(text, "{:width$}", design.name());
        let mut why = None;
        for protocol in BuiltIn::ALL {
            let fits = protocol.fits(design);
            let (name, column) = (protocol.name(), protocol.name().len());
            let mark = if fits.is_ok() { name } else { "-" };
            let _ = write!(text, "  {mark:<column$}");
            why = why.or(fits.err());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        let Some(why) = why else { continue };
        match refusals.iter_mut().find(|(other, _)| *other == why) {
            Some((_, designs)) => designs.push(design.name()),
            None => refusals.push((why, vec![design.name()])),
        }
    }
    text += "\n-: connections of the protocol must reach each other, and the design\n";
    for (why, designs) in refusals {
        entry(&mut text, why, &designs.join(", "));
    }
    text += "\nProtocols:\n";
    for protocol in BuiltIn::ALL {
        entry(&mut text, protocol.name(), protocol.summary());
    }
    text += "\nDesigns, and the settings each uses beside those that all use:\n";
    for &design in Design::ALL {
        let mut what = design.about().summary.to_owned();
        let settings = settings(design);
        if !settings.is_empty() {
            let _ = write!(what, " (--{})", settings.join(", --"));
        }
        if design == Design::default() {
            what += ". The default";
        }
        entry(&mut text, design.name(), &what);
    }
    text
}

/// A line each.
fn entry(text: &mut String, name: &str, what: &str) {
    let _ = writeln!(text, "  {name}\n      {what}");
}

/// The same for programs.
pub fn json() -> Value {
    let protocols: Vec<Value> = BuiltIn::ALL
        .iter()
        .map(|protocol| {
            json!({
                "name": protocol.name(), "summary": protocol.summary(), "shares": protocol.is_shared(),
            })
        })
        .collect();
    let designs: Vec<Value> = Design::ALL
        .iter()
        .map(|&design| {
            let about = design.about();
            let serves: Vec<&str> = BuiltIn::ALL
                .iter()
                .filter(|protocol| protocol.fits(design).is_ok())
                .map(|protocol| protocol.name())
                .collect();
            let refuses: Map<String, Value> = BuiltIn::ALL
                .iter()
                .filter_map(|protocol| {
                    Some((protocol.name().to_owned(), protocol.fits(design).err()?.into()))
                })
                .collect();
            json!({
                "name": about.name,
                "summary": about.summary,
                "source": about.source,
                "memory": match about.memory {
                    Memory::Shared => "shared",
                    Memory::Separate => "separate",
                },
                "at_once": match about.at_once {
                    AtOnce::One => "one",
                    AtOnce::Workers => "workers",
                    AtOnce::Many => "many",
                },
                "settings": settings(design),
                "serves": serves,
                "refuses": refuses,
            })
        })
        .collect();
    json!({ "protocols": protocols, "designs": designs, "default_design": Design::default().name() })
}

fn settings(design: Design) -> Vec<String> {
    design.about().settings.iter().map(ToString::to_string).collect()
}
