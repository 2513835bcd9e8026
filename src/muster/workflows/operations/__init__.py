"""Operations on existing workflows: retry, resubmit, stop, terminate, suspend, resume."""
