//! The form of a schedule. A form with an error, or of a schedule that was changed meanwhile, is shown again as it was.

use axum::extract::State;
use axum::response::IntoResponse;
use crore_api::Fault;
use crore_api::calls::NewSchedule;
use crore_api::if_match::IfMatch;
use crore_api::params::PathParam;
use crore_core::Name;
use crore_core::schedule::Timing;
use crore_wire::Format;
use crore_wire::api::enums::Missed;
use crore_wire::api::push;
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::flash::{Flash, fault_message};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;

/// The values of the form.
#[derive(Debug)]
struct ScheduleFields<'a> {
    /// `None`: the schedule exists, and keeps its name.
    name: Option<&'a str>,
    timing: &'a str,
    missed: &'a str,
    /// The job as JSON.
    job: &'a str,
    /// The entity tag of the schedule that is edited.
    tag: &'a str,
}

/// The form of a new schedule.
pub(crate) async fn ask_new(State(_): State<Ui>, cx: PageContext) -> PageResult {
    let job = "{\n  \"kind\": \"report\",\n  \"queue\": \"default\",\n  \"payload\": {}\n}";
    let fields =
        ScheduleFields { name: Some(""), timing: "cron 0 3 * * *", missed: "skip", job, tag: "" };
    let content = show(&cx, cx.text.new_schedule, (&cx.links.to("schedules-new"), &fields), None);
    Ok(cx.page(&PageFrame::still(NavItem::Schedules, cx.text.new_schedule), &content))
}

/// The form of an existing schedule.
pub(crate) async fn ask_edit(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("schedule")?;
    let tagged = ui.api().get_schedule(&cx.grant, &name).await?;
    let schedule = tagged.value.to_wire(Format::Json);
    let job = serde_json::to_string_pretty(&schedule.job).unwrap_or_default();
    let missed = serde_json::to_value(schedule.missed).unwrap_or_default();
    let fields = ScheduleFields {
        name: None,
        timing: &schedule.timing,
        missed: missed.as_str().unwrap_or_default(),
        job: &job,
        tag: tagged.tag.as_deref().unwrap_or_default(),
    };
    let action = format!("{}/edit", cx.links.item("schedules", name.as_str()));
    let content = show(&cx, name.as_str(), (&action, &fields), None);
    Ok(cx.page(&PageFrame::still(NavItem::Schedules, name.as_str()), &content))
}

fn show(
    cx: &PageContext,
    title: &str,
    (action, fields): (&str, &ScheduleFields<'_>),
    fault: Option<&Fault>,
) -> Markup {
    let text = cx.text;
    let policies =
        [("skip", text.missed_skip), ("once", text.missed_once), ("all", text.missed_all)];
    html! {
        h1 { (title) }
        @if let Some(fault) = fault { (fault_message(fault)) }
        form.fields method="post" action=(action) {
            (cx.csrf())
            @if let Some(name) = fields.name {
                label for="name" { (text.name) }
                input #name name="name" value=(name) required maxlength="255";
            }
            label for="timing" { (text.timing) }
            input #timing name="timing" value=(fields.timing) required maxlength="128";
            p.hint { (text.timing_hint) }
            label for="missed" { (text.missed_runs) }
            select #missed name="missed" {
                @for (name, words) in policies {
                    option value=(name) selected[fields.missed == name] { (words) }
                }
            }
            label for="job" { (text.job_to_push) }
            // A line break after the tag is not part of the value.
            textarea #job name="job" rows="14" spellcheck="false" { "\n" (fields.job) }
            input type="hidden" name="tag" value=(fields.tag);
            div.buttons {
                button.primary type="submit" { (text.save) }
                a.button href=(cx.links.to("schedules")) { (text.back) }
            }
        }
    }
}

/// Creates a schedule.
pub(crate) async fn create(State(ui): State<Ui>, cx: PageContext, form: PostedForm) -> PageResult {
    let set = async {
        let name = Name::new("name", form.text("name").unwrap_or_default())?;
        save(&ui, &cx, name.clone(), &form).await?;
        Ok(name)
    };
    let action = cx.links.to("schedules-new");
    let again = (form.get("name"), cx.text.new_schedule, action.as_str());
    finish(&cx, set.await, &form, again)
}

/// Replaces a schedule.
pub(crate) async fn edit(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    form: PostedForm,
) -> PageResult {
    let name = name.name("schedule")?;
    let set = save(&ui, &cx, name.clone(), &form).await.map(|()| name.clone());
    let action = format!("{}/edit", cx.links.item("schedules", name.as_str()));
    finish(&cx, set, &form, (None, name.as_str(), &action))
}

async fn save(ui: &Ui, cx: &PageContext, name: Name, form: &PostedForm) -> Result<(), Fault> {
    let timing = Timing::parse("timing", form.text("timing").unwrap_or_default())?;
    let missed = match form.get("missed") {
        Some("once") => Missed::Once,
        Some("all") => Missed::All,
        _ => Missed::Skip,
    };
    let text = form.get("job").unwrap_or_default();
    let job: push::NewJob = Format::Json.decode_at("job", text.trim().as_bytes())?;
    let job = job.read(Format::Json).map_err(|invalid| invalid.inside("job"))?;
    let if_match = form.text("tag").map_or(IfMatch::ANY, IfMatch::tag);
    ui.api().set_schedule(&cx.grant, name, NewSchedule { timing, missed, job }, &if_match).await
}

fn finish(
    cx: &PageContext,
    set: Result<Name, Fault>,
    form: &PostedForm,
    (name, title, action): (Option<&str>, &str, &str),
) -> PageResult {
    match set {
        Ok(name) => Ok(cx.done(Flash::Changed, &cx.links.item("schedules", name.as_str()))),
        Err(fault) => {
            let field = |name: &str| form.get(name).unwrap_or_default();
            let fields = ScheduleFields {
                name,
                timing: field("timing"),
                missed: field("missed"),
                job: field("job"),
                tag: field("tag"),
            };
            let content = show(cx, title, (action, &fields), Some(&fault));
            let page = cx.page(&PageFrame::still(NavItem::Schedules, title), &content);
            Ok((crore_api::status(fault.code()), page).into_response())
        }
    }
}
