"""The data of a plan, window by window: what does not fit, what moves the answer, and why."""
