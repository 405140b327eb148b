//! `crore config`: check, show, reference, schema.

use std::process::ExitCode;

use crate::cli::{ConfigCommand, ServeArgs};
use crate::config::{self, RawConfig, reference, schema, show};
use crate::exit::{CliError, FailureCode};
use crate::output::{CommandOutput, OutputFormat};

pub(crate) fn run(command: ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check { settings, output } => {
            checked(&settings)?;
            CommandOutput::new(output).confirm("the configuration is valid")?;
        }
        ConfigCommand::Show { settings, output } => {
            let raw = checked(&settings)?;
            let mut out = CommandOutput::new(output);
            match output {
                OutputFormat::Table => out.line(show::text(&raw).trim_end())?,
                OutputFormat::Json | OutputFormat::Jsonl => out.object(&show::object(&raw), &[])?,
            }
        }
        ConfigCommand::Reference => {
            CommandOutput::new(OutputFormat::Table).line(reference::markdown().trim_end())?;
        }
        ConfigCommand::Schema => {
            CommandOutput::new(OutputFormat::Json).object(&schema::schema(), &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn checked(settings: &ServeArgs) -> anyhow::Result<RawConfig> {
    let mut raw = config::collect(settings.config.as_deref(), settings.flags())?;
    match config::parse(&mut raw) {
        Ok(_) => Ok(raw),
        Err(faults) => Err(CliError::new(FailureCode::Usage, faults.to_string()).into()),
    }
}
