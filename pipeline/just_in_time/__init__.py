"""The `torch.compile` backend, and what runs its graphs."""
