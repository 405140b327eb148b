//! `crore config`: check, show, schema.

use std::process::ExitCode;

use crate::cli::{ConfigCommand, Settings};
use crate::config::{self, Raw, page, schema, show};
use crate::exit::{Failure, Why};
use crate::out::{Format, Out};

pub(crate) fn run(command: ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check(settings) => {
            checked(&settings)?;
            Out::new(Format::Table).line("the configuration is good")?;
        }
        ConfigCommand::Show { settings, output } => {
            let raw = checked(&settings)?;
            let mut out = Out::new(output);
            match output {
                Format::Table => out.line(show::text(&raw).trim_end())?,
                Format::Json | Format::Jsonl => out.one(&show::object(&raw), &[])?,
            }
        }
        ConfigCommand::Reference => Out::new(Format::Table).line(page::page().trim_end())?,
        ConfigCommand::Schema => Out::new(Format::Json).one(&schema::schema(), &[])?,
    }
    Ok(ExitCode::SUCCESS)
}

fn checked(settings: &Settings) -> anyhow::Result<Raw> {
    let mut raw = config::gather(settings.config.as_deref(), settings.flags())?;
    match config::understand(&mut raw) {
        Ok(_) => Ok(raw),
        Err(faults) => Err(Failure::new(Why::Usage, faults.to_string()).into()),
    }
}
