//! A rule as a person writes it: `Tool`, `Tool(pattern)`.
