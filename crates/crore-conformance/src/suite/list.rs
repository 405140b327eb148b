//! The list of cases. To add a case, write a function in its topic and add its name here.

use crore_store::{Jobs, Registry, Store};

use super::cases;
use super::{ConformanceCase, Subject};

/// Cases that need only jobs, limits, queue settings and groups.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_jobs_list {
    ($($then:tt)+) => {
        $($then)+! {
            apply:
                a_done_job_is_done
                a_failed_job_comes_back_after_its_delay
                a_job_is_dead_after_its_last_attempt
                a_dead_job_retried_by_hand_starts_afresh
                a_snoozed_job_costs_no_attempt
                a_lapse_has_the_effect_that_the_job_specifies
                every_other_end_is_written_as_decided
                a_history_is_newest_first_and_bounded
                a_cancelled_job_is_not_handed_out
                a_deleted_job_is_gone
                a_job_that_nobody_keeps_is_gone_when_done
                follow_ups_are_pushed_once_and_know_their_parent
                a_follow_up_sees_its_parent_as_the_write_leaves_it
                follow_ups_are_pushed_only_for_their_end
                a_follow_up_may_be_a_duplicate
                any_delivery_may_report_if_the_job_allows_it
                a_scheduled_job_may_be_run_now
                writes_of_a_batch_apply_in_order;
            batch:
                a_large_batch_is_stored_whole_and_in_order
                a_batch_is_all_or_nothing
                a_job_may_wait_for_an_earlier_one_of_its_batch
                a_batch_brings_groups_and_their_members
                two_of_a_batch_with_one_key_are_one_job
                two_of_a_batch_with_one_client_id_are_one_job
                a_dependency_on_a_duplicate_waits_for_the_first
                a_reference_to_nothing_breaks_one_job_and_not_the_batch
                a_job_that_depends_on_a_broken_one_is_broken
                a_job_that_is_not_stored_leaves_no_trace
                a_batch_of_groups_alone_is_a_batch;
            breaks:
                a_cancelled_job_breaks_jobs_that_need_its_success
                a_removed_job_breaks_jobs_that_need_its_success
                a_dead_job_that_is_removed_breaks_the_jobs_it_held
                a_done_job_that_is_removed_breaks_nobody
                a_broken_job_is_cancelled_and_breaks_others_in_turn
                a_broken_job_is_not_released_by_the_rest
                a_push_that_can_no_longer_succeed_is_broken
                a_broken_job_that_is_retried_by_hand_runs;
            claim:
                one_live_lease_per_job
                claims_at_once_share_no_job
                a_claimed_job_is_running_under_a_fresh_delivery
                a_job_without_a_lease_holds_a_hidden_one
                a_delivery_is_never_used_again
                order_is_priority_then_due_then_id
                an_earlier_due_time_goes_before_a_smaller_id
                queues_are_merged_unless_asked_otherwise
                strict_order_empties_one_queue_before_the_next
                a_queue_named_twice_is_asked_once
                a_claim_takes_only_the_kinds_it_asks_for
                a_claim_takes_no_more_than_it_asks_for
                an_empty_claim_is_not_an_error
                a_paused_queue_is_passed_over
                a_job_handed_back_keeps_its_place
                an_edited_job_is_claimed_at_its_new_position;
            depend:
                success_releases_all_waiting_jobs
                death_releases_jobs_that_need_the_end_and_holds_jobs_that_need_success
                a_retry_releases_nobody
                a_job_waits_for_all_that_it_names
                a_dependency_that_is_satisfied_already_does_not_wait
                a_job_that_needs_the_success_of_a_dead_job_is_held
                a_released_job_that_is_due_later_is_scheduled
                a_released_job_that_is_overdue_is_ready
                a_second_end_releases_nobody_twice
                a_release_makes_older_decisions_stale
                a_release_does_not_wake_the_dead
                a_cancelled_dependant_that_is_retried_waits_for_the_rest
                dependants_of_dependants_go_one_after_the_other;
            group:
                a_group_counts_its_members
                a_group_releases_when_all_have_succeeded
                a_dead_member_has_run_and_not_succeeded
                a_job_that_needs_all_to_succeed_breaks_when_a_dead_member_is_pruned
                a_member_that_is_tried_again_has_not_run
                a_removed_member_is_no_member
                a_cancelled_member_keeps_a_group_from_succeeding
                an_open_group_waits_for_its_seal
                a_seal_releases_when_all_have_run_before
                a_seal_is_set_once
                an_empty_group_has_ended_once_it_is_sealed
                a_job_that_waits_for_a_group_may_precede_its_members
                a_dependency_on_an_ended_group_does_not_wait
                a_group_releases_nobody_twice
                a_follow_up_may_join_a_group
                a_follow_up_that_joins_its_parents_group_holds_it;
            limits:
                no_more_run_than_a_limit_allows
                a_limit_holds_over_queues_kinds_and_claims
                claims_at_once_do_not_pass_a_limit
                each_value_has_its_own_bucket
                a_blocked_lane_blocks_no_other
                a_blocked_queue_yields_to_the_next_in_strict_order
                a_rate_lets_through_its_burst_and_then_its_pace
                a_quiet_time_earns_no_more_than_the_burst
                a_rate_that_is_made_faster_forgets_what_it_cannot_owe
                a_rate_that_was_not_evaluated_for_lack_of_permits_changes_nothing
                a_rate_is_asked_before_the_limits_after_it
                the_next_time_is_returned_only_when_fewer_jobs_were_claimed
                a_job_runs_only_if_all_its_limits_allow
                a_rate_and_a_concurrency_hold_one_after_the_other
                a_changed_limit_holds_by_its_new_terms
                unclaimed_jobs_do_not_use_the_rate
                a_claim_that_takes_less_leaves_the_rest_of_the_permits
                a_limit_of_nothing_stops_everything
                an_unknown_limit_holds_nobody_back
                a_limit_holds_from_the_next_claim_on
                a_rate_that_was_made_faster_does_not_wait_for_the_slower
                a_late_limit_is_not_widened_by_jobs_that_ran_before
                a_job_with_other_limit_keys_counts_against_those;
            permits:
                a_permit_comes_back_when_a_job_is_done
                a_permit_comes_back_when_a_job_fails
                a_permit_comes_back_when_a_job_waits_to_be_retried
                a_permit_comes_back_when_a_job_dies
                a_permit_comes_back_when_a_job_is_snoozed
                a_permit_comes_back_when_a_job_is_handed_back
                a_permit_comes_back_when_a_job_is_given_up
                a_permit_comes_back_when_a_lease_lapses
                a_permit_comes_back_when_a_job_times_out
                a_permit_is_held_until_a_cancelled_job_has_stopped
                a_job_that_never_ran_returns_no_permit;
            push:
                a_pushed_job_comes_back_with_every_field
                absent_options_stay_absent
                payload_bytes_are_kept_exactly
                an_encoding_is_kept_with_its_payload
                priorities_reach_both_ends
                an_unusual_queue_name_is_distinct
                an_unusual_kind_name_is_distinct
                ids_grow_in_the_order_of_pushes
                a_job_is_found_by_its_callers_id
                an_id_is_never_used_again
                an_empty_push_is_answered_and_stores_nothing
                a_push_is_stamped_by_the_stores_clock
                a_due_time_in_the_past_does_not_improve_the_position
                a_job_that_is_due_later_is_not_claimed
                get_answers_in_the_order_asked_for;
            renew:
                a_renewal_extends_a_lease_from_now
                a_lease_never_gets_shorter
                a_lease_that_ended_may_still_be_extended
                a_renewal_reports_a_stop_request
                a_renewal_makes_no_report_stale
                a_renewal_makes_a_lapse_stale
                a_lease_that_is_not_held_is_not_extended
                a_job_that_never_ran_has_no_lease
                renewals_are_answered_singly_and_in_order;
            results:
                a_result_is_kept_for_its_time
                a_result_that_nobody_wants_is_not_kept
                a_large_result_is_kept_exactly
                of_two_takers_one_gets_the_result
                a_job_kept_for_its_result_is_gone_when_that_is_taken
                a_dead_job_keeps_what_it_died_of;
            stale:
                the_first_report_wins
                of_two_reports_at_once_one_wins
                a_stale_delivery_changes_nothing
                a_change_is_guarded_by_each_thing_that_was_seen
                a_change_of_a_missing_job_is_stale
                a_claim_makes_older_decisions_stale
                a_request_to_stop_comes_between_claim_and_report
                one_stale_write_does_not_stop_the_others
                a_stale_write_has_no_effects;
            unique:
                a_duplicate_is_answered_with_the_first_and_changes_nothing
                of_two_pushes_at_once_one_is_the_duplicate
                a_key_held_until_the_start_is_free_when_claimed
                a_key_held_until_success_outlives_death
                a_key_held_until_the_end_is_free_after_any_end
                a_retry_keeps_the_lock
                a_key_is_free_after_cancel_and_delete
                a_key_is_free_after_its_job_is_done_and_not_kept
                a_window_ends_a_lock_whatever_happens
                a_window_counts_from_when_the_job_is_due
                an_idempotency_key_outlives_its_job
                a_job_releases_no_lock_but_its_own
                an_unusual_key_is_distinct
                a_client_id_is_unique_within_its_door
                a_client_id_names_its_job_until_that_is_gone
                a_moved_job_keeps_its_key
                holders_are_named_in_order_and_reserve_nothing
                an_ended_job_is_named_as_long_as_it_holds_its_key
                a_key_is_free_after_its_window
                a_key_is_free_after_its_job_is_removed;
        }
    };
}

/// Cases that need a whole store.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_whole_list {
    ($($then:tt)+) => {
        $($then)+! {
            breaks:
                broken_jobs_are_listed_until_they_are_decided_upon;
            identity:
                the_identity_of_a_store_does_not_change;
            lead:
                one_node_leads_at_a_time
                of_two_nodes_at_once_one_leads
                a_leader_that_asks_again_goes_on
                another_takes_over_after_the_end
                a_leader_that_asks_for_no_time_hands_over
                duties_are_led_apart;
            lists:
                ready_jobs_are_listed_as_they_will_be_claimed
                scheduled_jobs_are_listed_by_when_they_are_due
                waiting_and_running_jobs_are_listed_by_id
                ended_jobs_are_listed_newest_first
                jobs_that_ended_together_are_all_listed
                a_list_shows_only_the_queue_and_kind_asked_for
                filters_hold_in_every_state
                a_stable_job_is_listed_once_while_others_change
                a_page_of_nothing_is_an_answer
                counts_agree_with_a_mixed_life;
            notes:
                notes_of_a_run_are_kept
                notes_change_nothing_of_the_job
                the_newest_lines_are_kept
                a_note_of_another_delivery_is_dropped
                notes_go_with_their_job
                a_statistic_is_summed_by_minute_and_by_hour
                a_statistic_of_nothing_leaves_no_bucket
                old_statistics_fall_out;
            promote:
                a_scheduled_job_is_never_early
                due_jobs_are_promoted_earliest_first_up_to_n
                a_promoted_job_stands_by_when_it_was_due
                a_retry_is_promoted_like_any_other
                jobs_that_left_the_scheduled_state_are_not_promoted
                a_promotion_makes_older_decisions_stale
                a_clock_set_back_makes_nothing_early
                a_lease_ends_at_its_end_and_not_before
                lapsed_leases_are_listed_no_more_than_asked
                a_renewed_lease_has_not_lapsed
                only_running_jobs_lapse;
            prune:
                ended_jobs_are_kept_for_their_time
                a_queue_without_settings_has_the_defaults
                settings_whose_time_is_over_prune_nothing
                ended_jobs_are_pruned_to_the_maximum_of_the_queue
                pruning_is_bounded_and_starts_with_the_oldest
                age_counts_from_the_end_and_not_from_the_push
                live_jobs_are_never_pruned
                a_retried_job_is_not_pruned_for_its_first_death
                a_pruned_job_lets_go_of_what_it_held
                pruning_a_job_takes_its_result_along
                pruned_jobs_are_not_counted_nor_listed
                a_group_goes_a_day_after_its_end
                pruning_forgets_nothing_that_is_used_up;
            registry:
                a_definition_comes_back_as_it_was_set
                entries_are_listed_by_name_in_pages
                a_page_may_start_after_a_name_that_is_not_there
                revisions_of_a_name_grow_and_never_start_again
                a_definition_applies_only_if_its_guard_holds
                definitions_are_answered_singly_and_in_order
                one_name_may_be_used_in_several_tables
                an_entry_is_gone_when_its_time_is_over
                a_limit_and_a_pause_end_with_their_time
                entries_whose_time_is_over_are_pruned
                a_missing_entry_may_be_removed;
            results:
                a_result_whose_time_is_over_is_pruned_and_its_job_stays;
            tick:
                a_tick_pushes_its_jobs_and_moves_the_cursor
                of_two_nodes_that_fire_a_tick_one_does
                the_next_tick_fires_from_the_new_revision
                a_skipped_tick_pushes_nothing
                a_tick_of_a_changed_or_removed_schedule_is_stale;
            unique:
                a_lock_whose_time_is_over_is_pruned;
            wakes:
                a_push_wakes_its_queue
                every_hook_is_called
                a_promotion_wakes_its_queue
                a_hand_back_wakes_its_queue
                a_release_wakes_its_queue
                a_retry_by_hand_wakes_its_queue;
        }
    };
}

macro_rules! entries {
    ($as:ident; $($topic:ident: $($case:ident)+;)+) => {
        vec![$($(
            ConformanceCase {
                name: stringify!($case),
                run: |subject: Subject<S>| {
                    let subject = subject.$as();
                    Box::pin(async move { cases::$topic::$case(&subject).await })
                },
            },
        )+)+]
    };
}

macro_rules! few {
    ($($list:tt)+) => { entries!(few; $($list)+) };
}

macro_rules! whole {
    ($($list:tt)+) => { entries!(whole; $($list)+) };
}

/// The cases that need only [`Jobs`] and [`Registry`].
pub fn jobs_cases<S: Jobs + Registry + 'static>() -> Vec<ConformanceCase<S>> {
    crate::conformance_jobs_list!(few)
}

/// The cases that need a whole [`Store`] and are not among [`jobs_cases`].
pub fn whole_cases<S: Store + 'static>() -> Vec<ConformanceCase<S>> {
    crate::conformance_whole_list!(whole)
}
