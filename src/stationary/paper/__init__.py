"""The paper's tables, figures and examples: settings as data, and one runner."""
