"""Training compared with eager: ``python -m pipeline.tools.training``."""
