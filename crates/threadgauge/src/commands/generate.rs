//! The man page and the completions, from the same definitions as the command line itself.

use clap::CommandFactory;
use clap_complete::{Shell, generate as completions};

use crate::cli::{Cli, Generated};
use crate::output::{Done, Verdict, print_as_it_is};

/// Writes what was asked for to standard output.
pub fn generate(what: Generated) -> Done {
    let mut text = Vec::new();
    let mut command = Cli::command();
    match what {
        Generated::Man => man(&command, &mut text)?,
        Generated::Bash => completions(Shell::Bash, &mut command, "threadgauge", &mut text),
        Generated::Zsh => completions(Shell::Zsh, &mut command, "threadgauge", &mut text),
        Generated::Fish => completions(Shell::Fish, &mut command, "threadgauge", &mut text),
    }
    print_as_it_is(&String::from_utf8_lossy(&text))?;
    Ok(Verdict::Done)
}

/// One page: the command, then each of its commands with its options and examples.
fn man(command: &clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(text)?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let heading = format!(".SH \"COMMAND {}\"\n", sub.get_name().to_uppercase());
        text.extend_from_slice(heading.as_bytes());
        let page = clap_mangen::Man::new(sub.clone());
        page.render_description_section(text)?;
        page.render_options_section(text)?;
        page.render_extra_section(text)?;
    }
    Ok(())
}
