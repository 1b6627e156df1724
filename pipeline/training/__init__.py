"""Training ahead of time: a model, its loss and its optimizer as one artifact.

loss.py          the loss as a module over a batch, and the names of the batch's tensors
gradients.py     forward and backward as one graph, from AOTAutograd
generator.py     random numbers made inside of the step
recomputation.py what backward computes again, by PyTorch's partitioner
optimizers.py    the optimizer's state, and its update as a graph
scalars.py       what lets PyTorch's own optimizers be traced
scaling.py       the loss scale of mixed precision
steps.py         the module whose methods are the artifact's entry points
compiling.py     `compile_training`
"""
