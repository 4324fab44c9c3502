"""Patterns of many names: one branch for each character, not one for each name.

An alternation of a thousand eras is tried name by name at every character of a
text; as a tree it is left at the first character that no name has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_Tree = dict[str, "_Tree"]
_END = ""  # key of a node at which a name ends


def build_names_pattern(names: Iterable[str]) -> str:
  """Returns a pattern without groups that matches any name, the longest first.

  Args:
    names: not empty strings; of none, the pattern matches nothing.
  """
  tree: _Tree = {}
  for name in names:
    node = tree
    for character in name:
      node = node.setdefault(character, {})
    node[_END] = {}
  return _format_tree(tree) if tree else "(?!)"


def _format_tree(tree: _Tree) -> str:
  """Returns the pattern of what follows a node."""
  # Last characters of names, in one class; longer ways stand before them.
  leaves = [
    character
    for character, node in tree.items()
    if character != _END and set(node) == {_END}
  ]
  branches = [
    re.escape(character) + _format_tree(node)
    for character, node in sorted(tree.items())
    if character != _END and character not in leaves
  ]
  if len(leaves) == 1:
    branches.append(re.escape(leaves[0]))
  elif leaves:
    branches.append(f"[{''.join(map(re.escape, sorted(leaves)))}]")
  if not branches:
    return ""
  is_optional = _END in tree
  if len(branches) == 1 and not is_optional:
    return branches[0]
  return f"(?:{'|'.join(branches)})" + "?" * is_optional
