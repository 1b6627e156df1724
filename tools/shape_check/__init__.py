"""Shape and dtype functions against the operators that they describe (see `tools.check_shape_library`)."""
