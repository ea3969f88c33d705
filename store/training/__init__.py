"""A run of training: its data, folder, settings, loop and model; train and resume it."""
