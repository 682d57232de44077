"""Plain records and what people write: SLOs, spans of time, categories, findings, doubts.

Nothing here loads torch.
"""
