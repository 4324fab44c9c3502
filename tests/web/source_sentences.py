"""Examples of the sentences that modules write, from their source."""

import ast
import re

# Of names whose value is a number.
_NUMBER = re.compile(r"len|num|count|number|correction_id|\.years?$|last$")


def write_example(node):
  """Returns what a string with values may look like; "" of other nodes."""
  if isinstance(node, ast.Constant) and isinstance(node.value, str):
    return node.value
  if not isinstance(node, ast.JoinedStr):
    return ""
  return "".join(
    value.value
    if isinstance(value, ast.Constant)
    else "1,203"
    if value.format_spec or _NUMBER.search(name_of(value))
    else "ended by SIGKILL"
    if name_of(value) == "error"
    else "甲"
    for value in node.values
  )


def name_of(value):
  return ast.unparse(value.value)
