# One at_test line a module; each module's owner adds its own.
