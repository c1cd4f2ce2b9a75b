"""Every class of attack that was tried on the project, and the tests that would notice it again.

Attacks were tried by hand, in rounds; each found a fault, or found none and should go on finding none. The
table is by what would break. A test that is renamed or removed has to be named here anew.
"""

import re

import pytest

from tests.seeded import ROOT

CLASSES = {
    # ---- state is a function of the graph ----------------------------------------------------------------
    "bits of a ghost inside one batch are not noted, and sums are too coarse for good": [
        "tests/live/test_cuts.py::test_an_edge_that_comes_and_goes_inside_a_batch_leaves_an_exact_ghost",
        "tests/live/test_cuts.py::test_a_restart_that_joins_cuts_is_exact",
        "tests/live/test_cuts.py::test_bits_that_are_not_noted_would_be_noticed",
    ],
    "a structure is left wrong, and a later update computes from it": [
        "tests/attacks/test_invariants.py::test_invariants_hold_after_every_step",
        "tests/attacks/test_invariants.py::test_a_wrong_line_of_a_kernel_would_be_noticed",
        "tests/live/test_growing.py::test_nothing_is_stale",
    ],
    "vectors of small graphs, of hubs or of other cuts are not those of the twin": [
        "tests/live/test_event_rules.py::TestEventRules",
        "tests/live/test_hubs.py::test_streams_with_a_hub",
        "tests/live/test_exact.py::test_vectors_equal_the_dense_twin",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[function_of_graph]",
    ],
    "sums of weights wrap": [
        "tests/engine/graph/test_screening.py::test_any_number_of_heavy_edges_is_overweight"
    ],
    "one time in another unit moves the clock for good": [
        "tests/live/test_clock.py::test_a_time_in_another_unit_is_told_before_anything_changes"
    ],
    # ---- an update happens or does not -------------------------------------------------------------------
    "an interrupt or a lack of memory tears a state, and nobody knows": [
        "tests/live/durable/test_torn.py::test_an_interrupted_update_refuses_and_says_what_heals_it",
        "tests/live/durable/test_torn.py::test_arrays_of_one_length_grow_all_or_none",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[interrupted]",
    ],
    "a torn state is read behind the end of an array": [
        "tests/live/durable/test_torn.py::test_reads_of_a_durable_embedding_refuse_after_a_failed_write"
    ],
    "an interrupt between log and state: acknowledged events are lost, or a batch is there by halves": [
        "tests/attacks/test_signals.py::test_what_was_acknowledged_outlives_signals",
        "tests/attacks/test_signals.py::test_a_log_that_goes_on_after_an_interrupt_would_be_noticed",
        "tests/live/durable/test_torn.py::test_an_interrupt_between_log_and_state_ends_acceptance",
    ],
    "a lack of memory in flush counts as a refusal": [
        "tests/live/durable/test_histories.py::test_what_was_published_by_halves_fails_the_log",
        "tests/live/durable/test_histories.py::test_a_flush_that_fails_and_counts_as_refused_would_be_noticed",
    ],
    "an interrupted save leaves no folder": [
        "tests/live/durable/test_torn.py::test_an_interrupted_save_leaves_the_old_folder_or_the_new_one"
    ],
    "two threads in one embedding end the process": [
        "tests/live/durable/test_torn.py::test_two_threads_at_once_end_in_errors_not_in_a_crash"
    ],
    "a trial leaves something behind, or is read by others": [
        "tests/engine/models/test_trial.py::test_nobody_can_tell_that_there_was_a_trial",
        "tests/live/test_trial_blocks.py::test_an_interrupt_at_any_line_leaves_nothing_of_a_trial_behind",
        "tests/live/test_trial_blocks.py::test_another_thread_never_reads_a_trial_that_is_being_taken_back",
        "tests/live/test_what_if.py::test_the_embedding_is_refused_inside_a_trial_and_the_trial_after_it",
    ],
    # ---- readers of changes ------------------------------------------------------------------------------
    "moves that a tolerance kept back are forgotten at a restart, and readers are not told": [
        "tests/live/durable/test_histories.py::test_a_restart_keeps_back_what_was_kept_back",
        "tests/live/durable/test_announced.py::test_a_reader_is_within_the_bound_and_exact_after_a_flush",
        "tests/live/durable/test_announced.py::test_a_restart_tells_what_would_have_been_told_without_it",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[mirror]",
    ],
    "readers and sinks of another history are not told to start anew": [
        "tests/live/durable/test_histories.py::test_a_folder_that_was_replaced_by_an_older_copy",
        "tests/live/durable/test_histories.py::test_mirrors_are_what_is_served",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[refit]",
    ],
    "a page of changes has no bound in ids that left": [
        "tests/live/durable/test_feed.py::test_a_page_is_bounded_in_all_its_rows",
        "tests/serving/service/test_changes.py::test_a_page_is_bounded_in_ids_that_left_too",
    ],
    # ---- what hostile input costs ------------------------------------------------------------------------
    "ids that were made to collide": [
        "tests/engine/graph/test_hashing.py::test_crafted_ids_probe_no_further_than_others",
        "tests/engine/graph/test_hashing.py::test_an_unkeyed_table_would_be_noticed",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[hostile_cost]",
    ],
    "refused weights are found one by one, each with an entry of the log": [
        "tests/live/durable/test_durable.py::test_any_number_of_refused_events_is_one_entry_and_one_sync"
    ],
    "clients use up the places of brokers": [
        "tests/live/durable/test_offsets.py::test_clients_take_no_place_from_brokers"
    ],
    "the expected cost looks one order deep": [
        "tests/serving/service/test_cost_estimate.py::test_expected_rows_look_as_deep_as_the_rule",
        "tests/serving/service/test_cost_estimate.py::test_one_ring_alone_would_be_noticed",
    ],
    "requests one behind the other fill the memory": [
        "tests/serving/service/test_server.py::"
        "test_requests_that_come_faster_than_they_are_answered_wait_outside",
        "tests/serving/service/test_server.py::"
        "test_requests_that_are_read_after_every_answer_would_be_noticed",
    ],
    "many empty members of a compressed body are decoded in quadratic time": [
        "tests/hostile/test_cost.py::test_cost_grows_with_the_length_of_the_input",
        "tests/hostile/test_cost.py::test_a_copy_of_the_rest_for_each_member_would_be_noticed",
        "tests/serving/service/test_content_coding.py::test_too_many_members_are_refused_by_name",
    ],
    "a stranger's message to a shard is received before it is refused": [
        "tests/cluster/test_strangers.py::test_strangers_cost_nothing",
        "tests/cluster/test_strangers.py::test_a_check_behind_the_body_would_be_noticed",
    ],
    "an answer for another node is taken, or an unreadable one raises what nobody documents": [
        "tests/client/test_hostile_answers.py::test_an_answer_about_another_node_is_refused"
    ],
    # ---- who gets in -------------------------------------------------------------------------------------
    "a reader reads a request otherwise than the writer": [
        "tests/attacks/test_raw_http.py::test_every_request_is_answered_as_is_due_with_readers_and_without",
        "tests/serving/readers/test_same_answers.py::test_answers_are_the_same_with_readers",
        "tests/serving/readers/test_upstream.py::"
        "test_a_body_that_does_not_come_is_not_taken_from_the_next_request",
    ],
    "a route, or a spelling of it, is served without its scope": [
        "tests/attacks/test_raw_http.py::test_no_spelling_of_a_path_leads_past_a_door",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[doors]",
    ],
    "slow clients keep others out, or have answers pile up": [
        "tests/attacks/test_raw_http.py::test_a_client_that_takes_no_answer_is_not_read_any_more",
        "tests/serving/service/test_server.py::test_dripping_headers_does_not_help",
        "tests/serving/service/test_server.py::test_silent_connections_are_closed",
    ],
    # ---- files and records -------------------------------------------------------------------------------
    "a folder is saved and cannot be loaded": [
        "tests/live/durable/test_torn.py::test_what_is_fitted_can_be_saved_and_loaded"
    ],
    "a spoilt folder ends the process, takes its memory or gives wrong vectors": [
        "tests/attacks/test_spoilt_folders.py::test_a_spoilt_folder_is_refused_or_does_no_harm",
        "tests/live/test_files.py::test_a_folder_that_contradicts_itself_is_refused",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[damage]",
        "lab/tests/soak/test_promises.py::test_it_holds_and_bugs_would_be_noticed[hostile]",
    ],
    "others on the machine read the files of a folder": [
        "tests/live/durable/test_private_files.py::test_nobody_else_sees_anything",
        "tests/live/durable/test_private_files.py::test_what_others_may_see_would_be_noticed",
    ],
    "a forked process writes": [
        "tests/live/durable/test_one_writer.py::test_a_forked_process_writes_nothing",
        "tests/live/durable/test_one_writer.py::test_a_forked_process_that_writes_would_be_noticed",
    ],
    "a lock file that is removed lets a second writer in": [
        "tests/live/durable/test_one_writer.py::test_a_lock_file_that_is_removed_lets_nobody_in",
        "tests/live/durable/test_one_writer.py::test_a_lock_on_the_file_alone_would_be_noticed",
    ],
    "a log that is removed is not missed, or a full disk is called damage": [
        "tests/live/durable/test_lost_log.py::test_a_log_that_is_gone_with_all_that_names_it_is_missed",
        "tests/live/durable/test_lost_log.py::test_a_full_disk_at_the_start_is_not_damage",
    ],
    "a forgotten id is in a file, or comes back": [
        "tests/live/durable/test_forgetting.py::test_no_file_names_it_and_everyone_else_is_exact",
        "tests/live/durable/test_forgetting.py::test_a_seeded_bug_is_noticed",
        "tests/end_to_end/test_erasure.py::test_a_deletion_request",
    ],
    "a changed record of a shard is taken, or ends the process": [
        "tests/cluster/test_wire.py::test_cut_and_changed_bytes_are_refused_or_read"
    ],
    "shards are not one process": [
        "tests/attacks/test_shards.py::test_shards_are_one_process_whatever_is_done_to_both",
        "tests/cluster/test_simulation.py::test_every_run_ends_right",
        "tests/cluster/test_refusals.py::test_a_batch_is_refused_alike_by_all",
    ],
}


@pytest.mark.parametrize("name", sorted({name for names in CLASSES.values() for name in names}))
def test_every_class_has_its_tests(name):
    file, _, test = name.partition("::")
    test, _, promise = test.rstrip("]").partition("[")
    assert (ROOT / "lab/src/dygcn_lab/soak/promises" / promise).with_suffix(".py" if promise else "").exists()
    assert re.search(rf"^(def|class) {test}\(", (ROOT / file).read_text(), re.MULTILINE), name
