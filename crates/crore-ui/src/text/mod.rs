//! Texts of the pages, in each language: a file per language, with the same keys.

mod en;
mod ja;

use std::fmt::Display;

pub(crate) use en::ENGLISH;
pub(crate) use ja::JAPANESE;

macro_rules! texts {
    ($($key:ident)+) => {
        /// The texts in one language. `{0}` and `{1}` stand for values, see [`fill`].
        #[derive(Debug)]
        pub(crate) struct Texts {
            $(pub(crate) $key: &'static str,)+
        }

        #[cfg(test)]
        impl Texts {
            fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($key), self.$key),)+]
            }
        }
    };
}

#[rustfmt::skip]
texts! {
    overview jobs queues navigation skip search search_hint time_range menu signed_in theme theme_system theme_light theme_dark language live live_paused live_lost new_rows copy copied
    keys key_search key_move key_open key_select key_retry key_go key_help key_close
    unit_milli unit_second unit_minute unit_hour unit_day now ago in_future
    state states all_states ready running scheduled retrying waiting done dead cancelled failed snoozed interrupted lapsed timed_out asked_to_stop paused open
    id kind queue attempt priority worker version client_id deadline due lease_until pushed started ended duration error detail details outcome when by action field value until limit schedule timing next group parent children after replay_of replays heard no_message unlimited
    retry run_now replay edit_and_replay edit cancel delete cancel_job delete_job more_actions save back apply clear pause resume drain download select select_all n_selected acts_on_all type_number
    flash_retried flash_cancelled flash_deleted flash_changed flash_replayed flash_paused flash_resumed flash_draining flash_stopping
    log_in log_out token token_hint token_invalid continue_here
    not_found not_allowed session_over to_overview advice_not_found advice_scope advice_login advice_form advice_retry advice_back
    busy_slots longest_waits all_queues wait nothing_in_range newest_errors next_runs no_schedules blocking_limits no_jobs_yet
    pushed_jobs done_jobs failed_attempts dead_jobs per_minute failures_per_minute wait_time run_time marks no_marks mark_start mark_deploy mark_queue_paused mark_queue_resumed mark_queue_changed mark_limit_changed mark_limit_removed
    filter views save_view view_name remove filter_hint no_jobs_match search_unfinished pages older newer first_page next_page scanned
    operations no_operations ask_bulk bulk_button one_job n_jobs all_jobs bulk_effect bulk_effect_some nothing_to_change first_of_them stop_operation examined matched changed refused operation_hint
    timeline waits runs fails waited_for ran_for runs_since why_waiting reason_waits_for reason_waits_for_event reason_due_at reason_paused reason_limited reason_limit_paused reason_behind reason_shared reason_no_worker_version reason_no_worker reason_workers_quiet reason_workers_busy reason_scheduled reason_none next_fetch last_error same_error other_error jobs_with_error payload result log history related same_by_command shown_as_base64 no_result no_result_kept result_read_once no_log no_history actions_by_hand no_related more_not_shown more_bytes ask_cancel cancel_effect ask_delete delete_effect edit_title changed_meanwhile start_after priority_hint replay_title replay_hint payload_kept
    workers schedules handlers limits errors groups system n_more name count size about since progress members definition active never connected quiet make_quiet stopping reconnecting stop_worker kinds kind_versions any_kind incarnation registered_workers running_here nothing_runs no_workers
    ask_stop_worker stop_worker_effect flash_quiet flash_worker_resumed flash_worker_stopping flash_pushed flash_revoked new_schedule zone missed_runs missed_skip missed_once missed_all next_ten last_runs no_runs paused_no_runs job_to_push timing_hint ask_delete_schedule delete_schedule_effect every daily_at
    workdays_at weekly_at weekdays monthly_at hourly_at every_hours_at every_minute every_minutes new_limit no_limits last_starts holds_back nobody_waits n_wait_for_limit who_waits when_one_ends paused_keys limit_hint ask_delete_limit delete_limit_effect no_errors errors_filling last_hour last_day
    diff_title diff_no_good diff_incomparable diff_same this_run good_run run change field_added field_removed field_changed first_seen last_seen worker_versions fingerprint places example example_gone retry_dead delete_dead runner timeout handler_unreadable no_handlers try_it try_hint push_job no_groups group_open group_sealed group_lost group_failed members_ended changed_at group_graph no_members seal ask_seal
    seal_effect storage tokens audit_log store_problem store_in_memory size_on_disk live_data segments written free_space this_node durability memory cpu_time protocols growth backups no_backup_directory no_backups last_backup no_tokens scopes restricted_to created expires expires_in new_token
    token_created token_once revoke ask_revoke revoke_effect no_audit_log no_audit_entries call from_address
    no_queues n_jobs_ready last_starts_in wait_for_resume paused_and_empty no_job_waits workers_here no_workers_here settings keep_done keep_dead fair_share ask_drain drain_effect
}

/// A text with values in the places of `{0}`, `{1}`, … Values are not searched for places.
pub(crate) fn fill(text: &str, values: &[&dyn Display]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let place = after.split_once('}').and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
        let value = place.and_then(|(n, rest): (usize, _)| Some((values.get(n)?, rest)));
        rest = match value {
            Some((value, rest)) => {
                out.push_str(&value.to_string());
                rest
            }
            None => {
                out.push('{');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_by_their_numbers() {
        assert_eq!(fill("{1}, {0} {2} {", &[&"{1}", &2]), "2, {1} {2} {");
    }

    #[test]
    fn languages_have_the_same_places() {
        let places = |text: &str| {
            let mut all: Vec<char> = text
                .match_indices('{')
                .filter_map(|(at, _)| text[at + 1..].chars().next())
                .collect();
            all.sort_unstable();
            all
        };
        for ((key, english), (_, japanese)) in ENGLISH.all().into_iter().zip(JAPANESE.all()) {
            assert!(!english.is_empty() && !japanese.is_empty(), "{key}");
            assert_eq!(places(english), places(japanese), "{key}");
        }
    }
}
