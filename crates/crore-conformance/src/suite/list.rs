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
                a_done_report_ends_the_job
                a_failed_job_comes_back_after_its_delay
                a_job_is_dead_after_its_last_attempt
                a_dead_job_retried_by_hand_starts_again
                a_snoozed_job_costs_no_attempt
                a_lapse_has_the_effect_that_the_job_specifies
                every_other_end_is_written_as_decided
                a_history_is_newest_first_and_bounded
                a_history_keeps_the_details_of_reports
                a_cancelled_job_is_not_delivered
                a_deleted_job_is_removed
                a_job_that_retains_nothing_is_removed_when_done
                follow_ups_are_pushed_once_and_know_their_parent
                a_follow_up_sees_its_parent_as_the_write_leaves_it
                follow_ups_are_pushed_only_for_their_end
                a_follow_up_may_be_a_duplicate
                any_delivery_may_report_if_the_job_allows_it
                a_job_keeps_that_it_was_reported
                a_scheduled_job_may_be_run_now
                writes_of_a_batch_apply_in_order;
            batch:
                a_large_batch_is_stored_whole_and_in_order
                a_batch_is_all_or_nothing
                a_job_may_wait_for_an_earlier_one_of_its_batch
                a_batch_creates_groups_and_their_members
                two_of_a_batch_with_one_key_are_one_job
                two_of_a_batch_with_one_client_id_are_one_job
                a_dependency_on_a_duplicate_waits_for_the_first
                a_reference_to_nothing_breaks_one_job_and_not_the_batch
                a_job_that_depends_on_a_broken_one_is_broken
                a_job_that_is_not_stored_leaves_no_trace
                a_batch_may_have_groups_only;
            breaks:
                a_cancelled_job_breaks_jobs_that_need_its_success
                a_removed_job_breaks_jobs_that_need_its_success
                a_dead_job_that_is_removed_breaks_the_jobs_it_held
                a_done_job_that_is_removed_breaks_no_job
                a_broken_job_is_cancelled_and_breaks_others_in_turn
                a_broken_job_is_not_released_by_its_other_dependencies
                a_push_whose_dependency_cannot_succeed_is_broken
                a_broken_job_that_is_retried_by_hand_runs;
            claim:
                one_live_lease_per_job
                concurrent_claims_share_no_job
                a_claimed_job_is_running_under_a_fresh_delivery
                a_job_without_a_lease_holds_a_hidden_one
                a_delivery_number_is_never_reused
                order_is_priority_then_due_then_id
                an_earlier_due_time_precedes_a_smaller_id
                queues_are_merged_unless_the_claim_is_strict
                strict_order_empties_one_queue_before_the_next
                a_queue_named_twice_is_claimed_from_once
                a_claim_takes_only_the_kinds_it_asks_for
                a_claim_takes_no_more_than_it_asks_for
                an_empty_claim_is_not_an_error
                a_paused_queue_is_skipped
                a_job_handed_back_keeps_its_position
                an_edited_job_is_claimed_at_its_new_position;
            depend:
                success_releases_all_waiting_jobs
                death_releases_jobs_that_need_the_end_and_holds_jobs_that_need_success
                a_retry_releases_no_job
                a_job_waits_for_all_its_dependencies
                a_dependency_that_is_satisfied_already_does_not_wait
                a_job_that_needs_the_success_of_a_dead_job_is_held
                a_released_job_that_is_due_later_is_scheduled
                a_released_job_that_is_overdue_is_ready
                a_second_end_releases_no_job_twice
                a_release_makes_older_decisions_stale
                a_release_does_not_revive_dead_jobs
                a_cancelled_dependant_that_is_retried_waits_for_the_rest
                chained_dependants_run_in_order;
            group:
                a_group_counts_its_members
                a_group_releases_when_all_have_succeeded
                a_dead_member_has_run_and_not_succeeded
                a_job_that_needs_all_to_succeed_breaks_when_a_dead_member_is_pruned
                a_member_that_is_retried_has_not_run
                a_removed_member_is_not_counted
                a_cancelled_member_prevents_the_success_of_its_group
                an_open_group_waits_for_its_seal
                a_seal_releases_when_all_have_run_before
                a_seal_is_set_once
                an_empty_group_has_ended_once_it_is_sealed
                a_job_that_waits_for_a_group_may_precede_its_members
                a_dependency_on_an_ended_group_does_not_wait
                a_group_releases_no_job_twice
                a_follow_up_may_join_a_group
                a_follow_up_that_joins_its_parents_group_holds_it
                a_sealed_group_refuses_pushed_members
                a_duplicate_of_a_member_of_a_sealed_group_is_a_duplicate
                a_follow_up_of_another_job_is_stored_without_the_sealed_group;
            limits:
                no_more_jobs_run_than_a_limit_allows
                a_limit_holds_over_queues_kinds_and_claims
                concurrent_claims_do_not_exceed_a_limit
                each_value_has_its_own_bucket
                a_blocked_lane_blocks_no_other
                a_blocked_queue_yields_to_the_next_in_strict_order
                a_rate_admits_its_burst_and_then_its_pace
                an_idle_period_earns_at_most_the_burst
                a_faster_rate_bounds_the_usage_of_the_slower_one
                a_rate_that_was_not_evaluated_for_lack_of_permits_changes_nothing
                a_rate_is_evaluated_before_later_limits
                the_next_time_is_returned_only_when_fewer_jobs_were_claimed
                a_job_runs_only_if_all_its_limits_allow
                a_rate_and_a_concurrency_block_in_turn
                a_changed_limit_applies_as_defined_now
                unclaimed_jobs_do_not_use_the_rate
                a_claim_that_takes_less_leaves_the_rest_of_the_permits
                a_limit_of_zero_stops_everything
                an_unknown_limit_holds_no_job
                a_limit_applies_from_the_next_claim
                a_rate_that_was_made_faster_does_not_wait_for_the_slower
                a_late_limit_is_not_widened_by_jobs_that_ran_before
                a_job_with_other_limit_keys_counts_against_those;
            permits:
                a_permit_is_returned_when_a_job_is_done
                a_permit_is_returned_when_a_job_fails
                a_permit_is_returned_when_a_job_waits_to_be_retried
                a_permit_is_returned_when_a_job_dies
                a_permit_is_returned_when_a_job_is_snoozed
                a_permit_is_returned_when_a_job_is_handed_back
                a_permit_is_returned_when_a_job_is_given_up
                a_permit_is_returned_when_a_lease_lapses
                a_permit_is_returned_when_a_job_times_out
                a_permit_is_held_until_a_cancelled_job_has_stopped
                a_job_that_never_ran_returns_no_permit;
            push:
                a_pushed_job_reads_back_with_every_field
                absent_options_stay_absent
                payload_bytes_are_kept_exactly
                an_encoding_is_kept_with_its_payload
                priorities_span_the_whole_range
                an_unusual_queue_name_is_distinct
                an_unusual_kind_name_is_distinct
                ids_grow_in_the_order_of_pushes
                a_job_is_found_by_its_callers_id
                an_id_is_never_reused
                an_empty_push_is_answered_and_stores_nothing
                push_times_come_from_the_clock_of_the_store
                a_due_time_in_the_past_does_not_improve_the_position
                a_job_that_is_due_later_is_not_claimed
                get_returns_jobs_in_the_requested_order;
            renew:
                a_renewal_extends_a_lease_from_now
                a_lease_never_gets_shorter
                a_lease_that_ended_may_still_be_extended
                a_renewal_reports_a_stop_request
                a_renewal_makes_no_report_stale
                a_renewal_makes_a_lapse_stale
                a_lease_that_is_not_held_is_not_extended
                a_job_that_never_ran_has_no_lease
                each_renewal_has_a_result_in_order;
            results:
                a_result_is_kept_for_its_retention
                a_result_without_retention_is_not_kept
                a_large_result_is_kept_exactly
                only_one_of_two_takers_gets_the_result
                a_job_kept_for_its_result_is_gone_when_that_is_taken
                a_dead_job_keeps_its_error;
            stale:
                the_first_report_wins
                one_of_two_concurrent_reports_wins
                a_stale_delivery_changes_nothing
                a_change_is_guarded_by_each_part_of_the_version_seen
                a_change_of_a_missing_job_is_stale
                a_claim_makes_older_decisions_stale
                a_stop_request_may_come_between_claim_and_report
                one_stale_write_does_not_stop_the_others
                a_stale_write_has_no_effects;
            unique:
                a_duplicate_is_answered_with_the_first_and_changes_nothing
                one_of_two_concurrent_pushes_is_the_duplicate
                a_key_held_until_the_start_is_free_when_claimed
                a_key_held_until_success_outlives_death
                a_key_held_until_the_end_is_free_after_any_end
                a_retry_keeps_the_lock
                a_key_is_free_after_cancel_and_delete
                a_key_is_free_after_its_job_is_done_without_retention
                a_window_ends_a_lock_in_every_state
                a_window_counts_from_the_due_time
                an_idempotency_key_outlives_its_job
                a_job_releases_no_lock_but_its_own
                an_unusual_key_is_distinct
                a_client_id_is_unique_within_its_door
                a_client_id_refers_to_its_job_until_removed
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
            fair:
                keys_of_a_shared_queue_take_turns
                a_key_with_a_larger_weight_gets_more_turns
                jobs_of_one_key_keep_their_order
                a_better_priority_precedes_any_turn
                an_idle_key_does_not_save_its_turns
                a_key_has_one_turn_over_all_its_kinds
                a_limited_key_does_not_hold_up_the_others
                keys_behind_one_limit_take_turns
                turns_do_not_compare_between_queues
                changed_weights_apply_from_the_next_claims
                a_job_with_another_key_takes_the_turns_of_that_key;
            identity:
                the_identity_of_a_store_does_not_change;
            lead:
                one_node_leads_at_a_time
                one_of_two_concurrent_nodes_leads
                a_leader_that_asks_again_keeps_leading
                another_node_takes_over_after_the_term
                a_leader_that_asks_for_no_time_resigns
                duties_have_separate_leaders;
            lists:
                ready_jobs_are_listed_as_they_will_be_claimed
                scheduled_jobs_are_listed_by_when_they_are_due
                waiting_and_running_jobs_are_listed_by_id
                ended_jobs_are_listed_newest_first
                jobs_that_ended_together_are_all_listed
                a_list_shows_only_the_queue_and_kind_asked_for
                filters_hold_in_every_state
                a_stable_job_is_listed_once_while_others_change
                an_empty_page_is_valid
                counts_agree_with_the_jobs_after_mixed_changes;
            notes:
                notes_of_a_run_are_kept
                notes_do_not_change_the_job
                the_newest_lines_are_kept
                a_note_of_another_delivery_is_dropped
                notes_are_removed_with_their_job
                a_statistic_is_summed_by_minute_and_by_hour
                a_statistic_of_zero_creates_no_bucket
                old_statistics_are_dropped;
            job_stats:
                statistics_of_jobs_are_summed_in_every_step
                empty_statistics_of_jobs_leave_no_row
                statistics_are_selected_by_queue_kind_and_restriction
                statistics_are_shown_by_series
                statistics_are_selected_by_time
                old_statistics_of_jobs_are_dropped
                series_beyond_the_maximum_count_as_other
                an_idle_series_makes_room_for_a_new_one;
            promote:
                a_scheduled_job_is_never_early
                due_jobs_are_promoted_earliest_first_up_to_n
                a_promoted_job_is_ordered_by_its_due_time
                a_retry_is_promoted_like_any_other
                jobs_that_left_the_scheduled_state_are_not_promoted
                a_promotion_makes_older_decisions_stale
                a_clock_set_back_delivers_nothing_early
                a_lease_lapses_at_its_end_and_not_before
                lapsed_leases_are_listed_up_to_n
                a_renewed_lease_has_not_lapsed
                only_running_jobs_lapse;
            prune:
                ended_jobs_are_kept_for_their_retention
                a_queue_without_settings_has_the_defaults
                expired_settings_prune_nothing
                ended_jobs_are_pruned_to_the_maximum_of_the_queue
                pruning_is_bounded_and_starts_with_the_oldest
                age_counts_from_the_end_and_not_from_the_push
                live_jobs_are_never_pruned
                a_retried_job_is_not_pruned_for_its_first_death
                a_pruned_job_releases_what_it_held
                pruning_a_job_removes_its_result
                pruned_jobs_are_not_counted_nor_listed
                a_group_is_pruned_a_day_after_its_end
                pruning_keeps_the_used_part_of_a_rate;
            registry:
                a_definition_reads_back_as_set
                entries_are_listed_by_name_in_pages
                a_page_may_start_after_a_missing_name
                revisions_of_a_name_grow_and_never_restart
                a_definition_applies_only_if_its_guard_holds
                each_definition_has_a_result_in_order
                joint_definitions_apply_all_or_none
                one_name_may_be_used_in_several_tables
                an_entry_is_missing_after_its_expiry
                a_limit_and_a_pause_expire
                expired_entries_are_pruned
                a_missing_entry_may_be_removed;
            results:
                a_result_whose_time_is_over_is_pruned_and_its_job_stays;
            tick:
                a_tick_pushes_its_jobs_and_moves_the_cursor
                only_one_of_two_nodes_fires_a_tick
                the_next_tick_fires_from_the_new_revision
                a_skipped_tick_pushes_nothing
                a_tick_of_a_changed_or_removed_schedule_is_stale;
            unique:
                an_expired_lock_is_pruned;
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
