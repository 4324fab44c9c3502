"""Models: dual encoder, calendar heads, text encoders, tokenizer.

Axis letters of every module of this package; a module declares those it uses.

  Texts     B of a batch, N of a collection (also records), Q queries
  States    L tokens, D features, V vocabulary entries
  Heads     H of queries, J of keys and values, E features of a head
  Calendar  G reigns, Y year numbers, M months of a year, K months of the
            timeline, A regnal years of the timeline, C classes of a head
  Offsets   F frequencies (or features of a year), U hidden units
  Packs     P packs, T texts of a pack, R rows of a pack, W columns of a row,
            S slots for texts in a row
"""
