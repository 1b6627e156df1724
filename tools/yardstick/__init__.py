"""Small programs of the kinds that PyTorch's own tests try: ``python -m pipeline.tools.yardstick``."""
