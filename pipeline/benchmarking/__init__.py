"""`pipeline bench`: a model compiled by us and by others, timed side by side."""
