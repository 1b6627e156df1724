"""Custom operators: one Python function gives schema, meaning, shapes and gradient; kernels are declared on it.

Import from the modules: `declaration.op`, `registry.find`. `errors` loads without torch.
"""
