"""Codes of the findings about files in the schema of the release."""

from __future__ import annotations

from collections.abc import Mapping

from ctd_jax_datasets.common.findings import (
  DROPPED,
  NOTE,
  RESOLVED,
  CodeMeaning,
)

MEANINGS: Mapping[str, CodeMeaning] = {
  code: CodeMeaning(level, text)
  for code, level, text in (
    # The files.
    ("file_differs", NOTE, "the file is not the released one (git blob id)"),
    ("member_repeated", RESOLVED, "a JSON member occurs twice; last counts"),
    ("value_not_list", DROPPED, "a value should be a list and is skipped"),
    ("text_empty", NOTE, "a record or query has no text"),
    # Months.
    ("month_outside_timeline", DROPPED, "the timeline has no such month"),
    ("month_repeated", RESOLVED, "a month has several nodes; they are joined"),
    ("flags_disagree", NOTE, "nodes of one month say event and no event"),
    ("flag_not_boolean", RESOLVED, "no_event is not true or false; as Python"),
    ("month_text_differs", NOTE, "the date in words is another month"),
    ("month_without_node", NOTE, "a month of the timeline has no node"),
    ("month_without_record", NOTE, "a node has neither event nor placeholder"),
    # Records.
    ("member_unread", DROPPED, "entries under a name that no loader reads"),
    ("sid_repeated", RESOLVED, "a sid occurs again, same text, month and kind"),
    ("sid_conflict", RESOLVED, "a sid occurs again, differently; last counts"),
    ("text_repeated", NOTE, "a text occurs under several sids"),
    ("placeholder_undated", NOTE, "a placeholder names no month"),
    ("placeholder_differs", NOTE, "a placeholder names another month"),
    ("compiler_unknown", NOTE, "commentary by none of the five known works"),
    ("match_score_unusable", RESOLVED, "match_score is not a number from 0-1"),
    # Split map.
    ("split_month_outside", NOTE, "the split map has a month too many"),
    ("split_repeated", RESOLVED, "a month has two splits listed; last counts"),
    ("split_missing", RESOLVED, "a month has no split; it counts as train"),
    ("split_unsorted", NOTE, "keys of the split map are not in order of time"),
    ("split_not_official", NOTE, "a month has another split than released"),
    ("split_count_differs", NOTE, "debug_info counts other months than listed"),
    # Queries.
    ("type_missing", RESOLVED, "a query has no type; its source counts"),
    ("type_unknown", RESOLVED, "type is not point or window; read as window"),
    ("qid_missing", RESOLVED, "a query has no qid; the line gives it one"),
    ("qid_unusable", RESOLVED, "qid is no single word; the line gives one"),
    ("qid_repeated", RESOLVED, "a qid occurs again; the line is added to it"),
    ("query_month_unsplit", RESOLVED, "a point's month has no split; train"),
    ("query_mixed", DROPPED, "a window over months of several splits"),
    ("query_without_split", DROPPED, "a window without a month of the map"),
    ("query_without_gold", DROPPED, "a query that no record answers"),
    ("target_without_month", DROPPED, "a month asked for that has no node"),
    ("interval_of_gold", RESOLVED, "no month asked for exists; month of gold"),
    ("interval_with_holes", RESOLVED, "months between those asked for count"),
    ("interval_mixed", NOTE, "so filled, a window has months of other splits"),
    ("gold_not_integer", DROPPED, "an answer is not a number, such as '12'"),
    ("gold_missing", DROPPED, "an answer has no record"),
    ("gold_repeated", RESOLVED, "an answer is listed twice"),
    ("gold_is_comment", NOTE, "an answer is commentary"),
    ("gold_outside", NOTE, "an answer is of a month that is not asked for"),
    ("gold_incomplete", NOTE, "records of the months asked for are not gold"),
  )
}
