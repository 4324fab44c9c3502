"""Systems that rank without a training run, one file each."""
