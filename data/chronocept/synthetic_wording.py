"""English wording of the synthetic samples, written for this project.

Events and duration phrases belong to a span of time (`SPANS`), so a text is
informative about its duration; texts of the other axes are not. `CLAUSES`
continue a sentence (benchmark 1), `SENTENCES` stand alone (benchmark 2).

Slots: {she} pronoun of the subject, {place}, {thing}, {group}. Any change of
a phrase or of the order changes the data sets.
"""

import dataclasses

# (subject, pronoun); all verbs below are in the third person singular.
SUBJECTS = (
  ("a night nurse", "she"),
  ("a street vendor", "he"),
  ("the youngest cousin", "she"),
  ("a retired plumber", "he"),
  ("the choir leader", "she"),
  ("a bicycle courier", "he"),
  ("my landlady", "she"),
  ("a trainee baker", "he"),
  ("the harbour pilot", "he"),
  ("our chemistry tutor", "she"),
  ("a museum guard", "she"),
  ("the village mayor", "he"),
  ("a guitar student", "she"),
  ("the bus driver", "he"),
  ("a beekeeper", "she"),
  ("the new intern", "he"),
)
PLACES = (
  "the corner shop",
  "the north platform",
  "the old mill",
  "the reading room",
  "the fish market",
  "the tram depot",
  "the school yard",
  "the ferry landing",
  "the town hall",
  "the allotment",
)
THINGS = (
  "a green toolbox",
  "a folded map",
  "a brass lamp",
  "a crate of pears",
  "a wet umbrella",
  "a borrowed radio",
  "a stack of flyers",
  "a dented kettle",
  "a roll of canvas",
  "a spare key",
)
GROUPS = (
  "neighbours",
  "commuters",
  "pigeons",
  "apprentices",
  "tourists",
  "volunteers",
  "street musicians",
  "schoolchildren",
)


@dataclasses.dataclass(frozen=True)
class Span:
  """Phrases about events of similar duration."""

  minutes: float
  event_phrases: tuple[str, ...]  # predicates of the subject
  duration_phrases: tuple[str, ...]


SPANS = (
  Span(
    4,  # a few minutes
    (
      "waits for the light to turn green",
      "ties a loose lace",
      "sneezes beside {thing}",
      "checks the departure board",
      "rings the bell at {place}",
    ),
    ("for a moment", "for two or three minutes", "right this second"),
  ),
  Span(
    20,  # a quarter of an hour or so
    (
      "boils eggs for breakfast",
      "queues at {place}",
      "takes a shower",
      "listens to the news bulletin",
      "mends {thing}",
    ),
    (
      "for a few minutes",
      "for a quarter of an hour",
      "until the kettle whistles",
    ),
  ),
  Span(
    70,  # about an hour
    (
      "takes a swimming lesson",
      "eats lunch near {place}",
      "sits an oral exam",
      "chairs a short meeting",
      "kneads a second batch of dough",
    ),
    ("for about an hour", "until the lesson ends", "over the lunch break"),
  ),
  Span(
    240,  # half a working day
    (
      "paints the garden fence",
      "drives a van across the county",
      "rehearses the second act",
      "sorts letters at {place}",
      "watches over a feverish child",
    ),
    ("for several hours", "all afternoon", "until dusk"),
  ),
  Span(
    900,  # a day, awake
    (
      "staffs the polling station",
      "runs a stall at {place}",
      "sails around the island",
      "hosts the wedding party",
      "clears snow from the roofs",
    ),
    ("for the whole day", "until tomorrow morning", "from dawn to midnight"),
  ),
  Span(
    4500,  # three days
    (
      "camps beside the reservoir",
      "exhibits {thing} at the fair",
      "nurses a sprained ankle",
      "visits relatives on the coast",
      "repairs the roof of {place}",
    ),
    ("for a few days", "until the weekend is over", "for three nights"),
  ),
  Span(
    30000,  # three weeks
    (
      "renovates the kitchen",
      "trains for a half marathon",
      "replaces the bridge near {place}",
      "tours the provinces with a play",
      "harvests olives in the hills",
    ),
    ("for several weeks", "all month", "until the end of the month"),
  ),
  Span(
    400000,  # nine months
    (
      "studies for a degree in geology",
      "serves on the council",
      "restores {place}",
      "rents a flat above {place}",
      "writes a history of the valley",
    ),
    ("for many months", "for more than a year", "for the coming years"),
  ),
)

# Subordinate clauses, none of which names a duration.
CLAUSES = {
  "static": (
    "while {place} stays shut",
    "and {thing} is on the step",
    "with {place} still in view",
  ),
  "generic": (
    "because {group} like company",
    "as {group} need patience",
    "since {group} follow crumbs",
  ),
  "hypothetical": (
    "unless it starts to hail",
    "if {place} opens at all",
    "provided {she} finds {thing}",
  ),
  "negation": (
    "but {she} never looks up",
    "without touching {thing}",
    "although nobody asks",
  ),
  "intention": (
    "hoping to impress {group}",
    "meaning to sell {thing}",
    "in order to reach {place}",
  ),
  "opinion": (
    "which seems rather brave",
    "and {she} finds it dull",
    "which {group} call charming",
  ),
  "recurrent": (
    "as {she} does every week",
    "again and again",
    "like every other Monday",
  ),
}
# Main clauses; `synthetic` capitalises them and adds the full stop.
SENTENCES = {
  "static": (
    "{place} stands next to the canal and looks just the same",
    "there is {thing} on the bench and {place} lies behind it",
    "the door of {place} is blue and its sign hangs crooked",
  ),
  "generic": (
    "{group} as a rule prefer shade to sun and talk to silence",
    "rain wets whoever stands in it, and {group} are no exception",
    "{group} need water, food and somebody who listens to them",
  ),
  "hypothetical": (
    "if {place} closes early, {she} perhaps takes {thing} along",
    "should {group} complain, the plan for {place} changes at once",
    "were it to hail, {group} would run towards {place}",
  ),
  "negation": (
    "{she} does not carry {thing} and does not ask for one",
    "no one at {place} knows the rules, not even the {group}",
    "{group} do not take part and nobody expects them to",
  ),
  "intention": (
    "{she} means to give {thing} to the people of {place}",
    "{she} wants to show {group} the way to {place} later",
    "{she} plans to swap {thing} for something lighter",
  ),
  "opinion": (
    "{she} thinks {group} are kinder than people at {place} say",
    "in the view of {group}, {place} deserves much more care",
    "{she} finds {thing} ugly, but {group} consider it lovely",
  ),
  "recurrent": (
    "every Tuesday {group} gather at {place} and sing",
    "each spring somebody leaves {thing} in front of {place}",
    "on most mornings {group} pass {place} in a long line",
  ),
}
