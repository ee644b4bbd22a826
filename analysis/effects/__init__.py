"""Effects of treatments: estimates, contrasts, verdicts, caveats."""
