"""`pipeline profile`: where a call spends its time, dispatch by dispatch."""
