# One at_test line a module; each module's owner adds its own.
at_test(verdict test_verdict.c)
at_test(case test_case.c)
at_test(case_codec test_case_codec.c)
at_test(protocol test_protocol.c)
at_test(expr test_expr.c)
at_test(dtype test_dtype.c)
at_test(rng test_rng.c)
at_test(problem test_problem.c)
