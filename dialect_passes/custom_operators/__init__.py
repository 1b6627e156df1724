"""Custom operators: one Python function gives schema, meaning, shapes and gradient; kernels are declared on it.

Import from the modules: `declaration.op`, `registry.find`. `errors` loads without torch. Where what is:

- the declaration: `declaration` (`op`, `CustomOp`), `schema`, `hints` (schema from type hints), `registry`, `declared`
  (files and lines of functions), `fingerprint` (for torch's caches), `errors`
- the meaning in eager: `composition` (runs it), `results` (contiguous, own memory), `fakes` (fake kernel and what was
  given against it), `library_functions` (shape and dtype functions)
- the gradient: `gradient` (autograd and vmap kernels), `backward` (derived, by hand), `saving` (min-cut), `analysis`
  (what depends on what), `call_kinds`
- the check: `checking` (`op.check`), `comparison`, `gradient_checks`, `compiled_checks`, `report`
- one call, as compiled: `call_types`, `sizes`, `symbolic_sizes` (result sizes from a captured call)
- lowerings: `lowering` (their base), `written` (functions that write IR), `kernels` (`op.kernel`), `launch`
- native kernels: `native_kernel`, `kernel_call`, `cpu_kernels`, `extern_kernels` (Vulkan, CUDA), `mlir_text`,
  `toolchain` (compilers), and what compiled code expects: `signatures`, `elf_objects`, `spirv`
"""
