"""Training drafts: data from the target, features, objectives, the trainer, export."""
