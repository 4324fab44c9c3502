"""What a run is worth: measures, protocol, significance and tables.

Nothing here knows a model. A system of any kind is a `retrieval.runs.Run`.
"""
