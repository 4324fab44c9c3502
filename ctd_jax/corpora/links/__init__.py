"""Links between sections of different works, by the rare strings they share."""
