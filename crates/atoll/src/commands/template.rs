//! `atoll template build|list|show|rm`.

use super::audit::{log_of, noted};
use super::{home, usable_home};
use crate::args::{TemplateArgs, TemplateCommand};
use crate::bar::Bar;
use crate::output::{Failure, note, on_one_line, visible};
use atoll_core::Language;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, AuditLog, Closing, Ending, Opening};
use atoll_engine::template::{
    HostProgram, ImageInfo, ImageSource, OtherBuild, SourceError, Template, TemplateError, TemplateInfo, TemplateStore,
};
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;

pub(crate) fn run(args: TemplateArgs) -> Result<ExitStatus, Failure> {
    let home = match &args.command {
        TemplateCommand::Build { .. } => usable_home()?,
        TemplateCommand::List { .. } | TemplateCommand::Show { .. } | TemplateCommand::Rm { .. } => home()?,
    };
    let store = TemplateStore::new(home);
    match args.command {
        TemplateCommand::Build {
            name,
            from,
            add,
            given,
            force,
            json,
        } => match from {
            _ if !add.is_empty() => build_with(&store, name, from.as_deref(), &add, json),
            Some(from) if !from.contains(':') => Err(Failure::usage(
                "`--from TEMPLATE` requires `--add PACKAGE`; for an image, use a source such as `oci:PATH`",
            )),
            Some(from) => build_image(&store, given.or(name), &from, force, json),
            None => build(&store, name.as_deref().unwrap_or(DEFAULT_TEMPLATE), force, json),
        },
        TemplateCommand::List { json } => list(&store, json),
        TemplateCommand::Show { name, json } => show(&store, &name, json),
        TemplateCommand::Rm { name } => remove(&store, &name),
    }
}

const DEFAULT_TEMPLATE: &str = "python-data";

/// A name that a template has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    name: &'a str,
    is_built: bool,
}

/// Refuses a name that no template has, before anything is made.
pub(crate) fn known<'a>(store: &TemplateStore, name: &'a str) -> Result<Known<'a>, Failure> {
    let shown = store.show(name).map_err(|error| fail(&error))?;
    let is_built = shown.info.built;
    Ok(Known { name, is_built })
}

/// Opens a template, building it first if need be, with a progress bar.
pub(crate) fn open(store: &TemplateStore, log: &Arc<AuditLog>, template: Known<'_>) -> Result<Template, Failure> {
    let open = || ensured(store, template.name, false);
    match template.is_built {
        false => built(log, template.name, open),
        true => open(),
    }
}

fn ensured(store: &TemplateStore, name: &str, force: bool) -> Result<Template, Failure> {
    let bar = Bar::new(format!("template {name}"), store.stop());
    let template = match force {
        true => store.rebuild(name, &bar),
        false => store.ensure(name, &bar),
    };
    bar.finish();
    template.map_err(|error| fail(&error))
}

/// A build is written down: it brings packages from elsewhere.
fn built(
    log: &Arc<AuditLog>,
    name: &str,
    work: impl FnOnce() -> Result<Template, Failure>,
) -> Result<Template, Failure> {
    let actor = Actor::local();
    let opening = Opening::new(Action::TemplateBuild, &actor).at(name);
    noted(log, opening, work, |template| Closing {
        reason: Some(template.digest.clone()),
        ..Closing::of(Ending::Ok)
    })
}

fn build(store: &TemplateStore, name: &str, force: bool, json: bool) -> Result<ExitStatus, Failure> {
    let builds = store.show(name).is_ok_and(|shown| force || !shown.info.built);
    let template = match builds {
        true => built(&log_of(&usable_home()?)?, name, || ensured(store, name, force))?,
        false => ensured(store, name, force)?,
    };
    ready(store, &template, json)
}

/// Makes a template of an image. It is written down like any build.
fn build_image(
    store: &TemplateStore,
    name: Option<String>,
    from: &str,
    force: bool,
    json: bool,
) -> Result<ExitStatus, Failure> {
    let source: ImageSource = from.parse().map_err(|error: SourceError| Failure::bad(&error))?;
    let name =
        name.ok_or_else(|| Failure::usage("template name is missing: use `atoll template build NAME --from IMAGE`"))?;
    let work = || {
        let bar = Bar::new(format!("template {name}"), store.stop());
        let template = store.from_image(&name, &source, force, &bar);
        bar.finish();
        template.map_err(|error| fail(&error))
    };
    let template = built(&log_of(&usable_home()?)?, &name, work)?;
    for language in [Language::Python, Language::Bash] {
        if let (Err(lacks), false) = (template.programs.of(language), json) {
            note(&format!("note: {lacks}\n"));
        }
    }
    ready(store, &template, json)
}

/// Makes a template that has the packages of another one, and some more.
fn build_with(
    store: &TemplateStore,
    name: Option<String>,
    from: Option<&str>,
    packages: &[String],
    json: bool,
) -> Result<ExitStatus, Failure> {
    let usage = "use `atoll template build NAME --add PACKAGE [--from TEMPLATE]`";
    let name = name.ok_or_else(|| Failure::usage(format!("template name is missing: {usage}")))?;
    let base = from.unwrap_or(DEFAULT_TEMPLATE);
    if base.contains(':') {
        return Err(Failure::usage(format!("packages cannot be added to an image: {usage}")));
    }
    let work = || {
        let bar = Bar::new(format!("template {name}"), store.stop());
        let template = store.add(&name, base, packages, &bar);
        bar.finish();
        template.map_err(|error| fail(&error))
    };
    let template = built(&log_of(&usable_home()?)?, &name, work)?;
    let info = store.show(&name).map_err(|error| fail(&error))?.info;
    if let (Some(bytes), false) = (info.size_bytes, json) {
        note(&format!("template {name}: {} MiB on disk\n", bytes >> 20));
    }
    ready(store, &template, json)
}

fn ready(store: &TemplateStore, template: &Template, json: bool) -> Result<ExitStatus, Failure> {
    let info = store.show(&template.name).map_err(|error| fail(&error))?;
    if json {
        print_json(&info)
    } else {
        print(&format!("{} {} is ready\n", template.name, template.digest))
    }
}

fn list(store: &TemplateStore, json: bool) -> Result<ExitStatus, Failure> {
    let all = store.list().map_err(|error| fail(&error))?;
    if json {
        return print_json(&all);
    }
    print(&all.iter().map(row).collect::<String>())
}

fn row(info: &TemplateInfo) -> String {
    let state = if info.built { "built" } else { "not built" };
    let row = format!("{:<16} {:<10} {}\n", info.name, state, visible(&info.description));
    info.other_builds.iter().fold(row, |row, other| row + &other_row(other))
}

fn other_row(other: &OtherBuild) -> String {
    let python = other.python.as_deref().unwrap_or("unknown");
    let size = other
        .size_bytes
        .map_or("size unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let used = match other.in_use {
        Some(true) => "in use",
        Some(false) => "unused",
        None => "may be in use (built by an older Atoll version); remove it with `atoll template rm`",
    };
    format!(
        "{:<16} {:<10} {}: Python {}, {size}, {used}\n",
        "",
        "old build",
        other.key,
        visible(python)
    )
}

fn show(store: &TemplateStore, name: &str, json: bool) -> Result<ExitStatus, Failure> {
    let details = store.show(name).map_err(|error| fail(&error))?;
    if json {
        return print_json(&details);
    }
    let mut text: String = facts(&details.info);
    text.push_str(&format!("{:<12} {}\n", "programs", programs(&details.programs)));
    text.extend(details.info.other_builds.iter().map(other_row));
    text.push_str("packages\n");
    let lines = details.packages.iter();
    text.extend(lines.map(|package| format!("  {} {}\n", on_one_line(&package.name), on_one_line(&package.version))));
    print(&text)
}

/// Which of the known programs code finds.
fn programs(all: &[HostProgram]) -> String {
    let names = |is_found: bool| {
        let of_kind = all.iter().filter(|program| program.path.is_some() == is_found);
        of_kind.map(|program| program.name).collect::<Vec<_>>().join(", ")
    };
    let (found, missing) = (names(true), names(false));
    let found = if found.is_empty() { "none" } else { found.as_str() };
    if missing.is_empty() {
        found.to_owned()
    } else {
        format!("{found} (not found on the host: {missing})")
    }
}

/// One line for each fact that is known.
fn facts(info: &TemplateInfo) -> String {
    let state = if info.built { "built" } else { "not built" };
    let image = info.image.as_ref();
    let languages = |image: &ImageInfo| {
        image
            .languages
            .iter()
            .map(|one| one.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let known = [
        ("name", Some(info.name.clone())),
        ("description", Some(info.description.clone())),
        ("state", Some(state.to_owned())),
        ("digest", info.digest.clone()),
        ("python", info.python.clone()),
        ("size", info.size_bytes.map(|bytes| format!("{} MiB", bytes >> 20))),
        ("built at", info.built_at.clone()),
        ("image", image.map(|image| image.source.clone())),
        ("image digest", image.map(|image| image.digest.clone())),
        ("languages", image.map(languages)),
        ("no python", image.and_then(|image| image.no_python.clone())),
    ];
    let line = |(name, value): (&str, Option<String>)| Some(format!("{name:<12} {}\n", on_one_line(&value?)));
    known.into_iter().filter_map(line).collect()
}

fn remove(store: &TemplateStore, name: &str) -> Result<ExitStatus, Failure> {
    match store.remove(name).map_err(|error| fail(&error))? {
        true => print(&format!("{name} removed\n")),
        false => Err(Failure::usage(format!(
            "template is not built: `{}`",
            name.escape_debug()
        ))),
    }
}

fn fail(error: &TemplateError) -> Failure {
    let mut failure = match error {
        _ if error.is_of_the_request() => Failure::bad(error),
        TemplateError::Stopped { .. } => Failure::interrupted(error),
        _ if error.is_of_the_host() => Failure::of_the_host(error),
        _ => Failure::ours(error),
    };
    failure.hint = error.hint().map(str::to_owned);
    failure
}

pub(crate) fn print(text: &str) -> Result<ExitStatus, Failure> {
    written(std::io::stdout().write_all(text.as_bytes()))
}

/// A reader that has closed the pipe has seen what it wanted.
pub(crate) fn written(done: std::io::Result<()>) -> Result<ExitStatus, Failure> {
    match done {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::ours(&error)),
        _ => Ok(ExitStatus::Ok),
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitStatus, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::ours(&error))?;
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_the_host_lacks_are_named() {
        let program = |name, path: Option<&str>| HostProgram {
            name,
            path: path.map(str::to_owned),
        };
        let (dot, pandoc) = (program("graphviz", Some("/usr/bin/dot")), program("pandoc", None));
        assert_eq!(programs(std::slice::from_ref(&dot)), "graphviz");
        assert_eq!(
            programs(std::slice::from_ref(&pandoc)),
            "none (not found on the host: pandoc)"
        );
        assert_eq!(programs(&[dot, pandoc]), "graphviz (not found on the host: pandoc)");
    }
}
